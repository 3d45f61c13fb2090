//! Conversations: each turn of the user is a request, with all that was said before it.

use contracts::openai::ChatMessage;
use contracts::run::PromptSource;
use serde_json::Value;

use super::draw::Draws;
use super::{Content, Prompt, PromptError};

const FIELD: &str = "workload.prompts.conversations";

/// The source of conversations' turns.
pub(super) struct Conversations {
    conversations: Vec<Conversation>,
    /// Requests of one pass over all.
    requests: u32,
    max_tokens: u32,
    draws: Draws,
}

struct Conversation {
    messages: Vec<ChatMessage>,
    turns: Vec<Turn>,
    /// The first turn's place among the requests of a pass.
    begins_at: u32,
}

/// A message of the user.
struct Turn {
    /// Its place among the messages.
    message: usize,
    /// Whether what was answered to it stands before the next turn.
    answered: bool,
}

impl Conversation {
    fn new(messages: Vec<ChatMessage>, begins_at: u32) -> Self {
        let mut turns: Vec<Turn> = Vec::new();
        for (place, message) in messages.iter().enumerate() {
            match message.role.as_str() {
                "user" => turns.push(Turn {
                    message: place,
                    answered: false,
                }),
                "assistant" => {
                    if let Some(turn) = turns.last_mut() {
                        turn.answered = true;
                    }
                }
                _ => {}
            }
        }
        Self {
            messages,
            turns,
            begins_at,
        }
    }

    /// All that is said up to turn `turn`, its own words included.
    fn until(&self, turn: usize, said: &[String]) -> Result<Vec<ChatMessage>, usize> {
        let mut messages = Vec::new();
        let mut begin = 0;
        for (place, now) in self.turns.iter().enumerate().take(turn + 1) {
            let end = now.message + 1;
            messages.extend(self.messages.get(begin..end).into_iter().flatten().cloned());
            begin = end;
            if place < turn && !now.answered {
                messages.push(ChatMessage {
                    role: "assistant".to_owned(),
                    content: Value::String(said.get(place).ok_or(place)?.clone()),
                });
            }
        }
        Ok(messages)
    }
}

impl Conversations {
    pub(super) fn new(
        conversations: Vec<Vec<ChatMessage>>,
        max_tokens: u32,
        draws: Draws,
    ) -> Result<Self, PromptError> {
        let mut requests = 0_u32;
        let mut all = Vec::with_capacity(conversations.len());
        for messages in conversations {
            let conversation = Conversation::new(messages, requests);
            let turns = u32::try_from(conversation.turns.len()).unwrap_or(u32::MAX);
            requests = requests.saturating_add(turns);
            all.push(conversation);
        }
        all.retain(|conversation| !conversation.turns.is_empty());
        if all.is_empty() {
            return Err(PromptError {
                field: FIELD,
                message: "at least one with a turn of the user is needed".to_owned(),
            });
        }
        Ok(Self {
            conversations: all,
            requests,
            max_tokens,
            draws,
        })
    }

    /// A request's conversation, by number over all passes, and its turn.
    fn at(&self, index: u32) -> Option<(u64, &Conversation, usize)> {
        let place = index.checked_rem(self.requests)?;
        let pass = index / self.requests;
        let after = self
            .conversations
            .partition_point(|conversation| conversation.begins_at <= place);
        let number = after.checked_sub(1)?;
        let conversation = self.conversations.get(number)?;
        let number = u64::from(pass) * self.conversations.len() as u64 + number as u64;
        let turn = (place - conversation.begins_at) as usize;
        Some((number, conversation, turn))
    }

    pub(super) fn together(&self, index: u32) -> u32 {
        let left = self
            .at(index)
            .map(|(_, conversation, turn)| conversation.turns.len() - turn);
        u32::try_from(left.unwrap_or(1)).unwrap_or(u32::MAX)
    }

    /// How many answers to turns before `index` are not recorded.
    pub(super) fn answers_needed(&self, index: u32) -> u32 {
        let needed = self.at(index).map(|(_, conversation, turn)| {
            let before = conversation.turns.iter().take(turn);
            before.filter(|turn| !turn.answered).count()
        });
        u32::try_from(needed.unwrap_or(0)).unwrap_or(u32::MAX)
    }

    pub(super) fn prompt(
        &self,
        warmup: bool,
        index: u32,
        said: &[String],
    ) -> Result<Prompt, PromptError> {
        let refuse = |message: String| PromptError {
            field: FIELD,
            message,
        };
        let (number, conversation, turn) = self
            .at(index)
            .ok_or_else(|| refuse("there are none".to_owned()))?;
        let mut messages = conversation.until(turn, said).map_err(|place| {
            refuse(format!(
                "request {index} is turn {} of its conversation and needs the answer to turn {}, \
                 which is neither recorded nor came",
                turn + 1,
                place + 1
            ))
        })?;
        if self.draws.cold()
            && let Some(first) = messages.first_mut()
        {
            put_before(&self.draws.nonce_line(warmup, number), &mut first.content);
        }
        Ok(Prompt {
            content: Content::Chat(messages),
            max_tokens: self.max_tokens,
            planned_input_tokens: None,
        })
    }
}

/// Puts a nonce before a message's text, which may come in parts.
fn put_before(nonce: &str, content: &mut Value) {
    match content {
        Value::String(text) => text.insert_str(0, nonce),
        Value::Array(parts) => parts.insert(0, serde_json::json!({"type": "text", "text": nonce})),
        _ => {}
    }
}

/// The first conversation with a turn whose answer is not recorded before the next, if any.
pub(crate) fn without_answer(source: &PromptSource) -> Option<usize> {
    let PromptSource::Conversations { conversations } = source else {
        return None;
    };
    conversations.iter().position(|messages| {
        let turns = Conversation::new(messages.clone(), 0).turns;
        turns
            .split_last()
            .is_some_and(|(_, before)| before.iter().any(|turn| !turn.answered))
    })
}
