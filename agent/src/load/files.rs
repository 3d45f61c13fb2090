//! The limit of open files, of which every connection takes one. What is done about a limit that
//! cannot be raised is the caller's matter.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open files beside the load's connections: logs, spool, API, libraries, with room to spare.
const OTHERS: u64 = 256;

/// Makes room for `needed` connections: raises this process's soft limit, up to the hard one. The
/// error is one line that says what to do.
pub fn ensure_open_files(needed: u64) -> Result<(), String> {
    let wanted = needed.saturating_add(OTHERS);
    let resource = Resource::RLIMIT_NOFILE;
    let unknown = |e| format!("the limit of open files cannot be read: {e}");
    let (soft, hard) = getrlimit(resource).map_err(unknown)?;
    if soft >= wanted {
        return Ok(());
    }
    if hard < wanted {
        return Err(format!(
            "{needed} connections need {wanted} open files, and this process may have {hard}; \
             start the agent after `ulimit -n {wanted}`, or with LimitNOFILE={wanted} under systemd"
        ));
    }
    setrlimit(resource, wanted, hard).map_err(|e| {
        format!(
            "the limit of open files cannot be raised to {wanted}: {e}; try `ulimit -n {wanted}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing else in these tests looks at the limit, and it is only ever raised.
    #[test]
    fn the_soft_limit_is_raised_and_the_hard_one_named() {
        let limits = || getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        let (soft, hard) = limits();
        assert_eq!(ensure_open_files(1), Ok(()));
        if soft < hard && hard > OTHERS {
            let needed = (soft + 1).saturating_sub(OTHERS);
            assert_eq!(ensure_open_files(needed), Ok(()));
            assert_eq!(limits(), (soft + 1, hard));
        }
        if hard < u64::MAX {
            let refused = ensure_open_files(u64::MAX);
            assert!(refused.is_err_and(|e| e.contains("ulimit -n")));
        }
    }
}
