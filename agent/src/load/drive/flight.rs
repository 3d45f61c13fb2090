//! How many requests are in flight, counted by the load thread as it starts and ends them, and how
//! long the first wave took. Pure; a handful of numbers, however many requests there are.

/// Counts of one drive. Instants are on the run's clock and never go back.
#[derive(Debug, Default)]
pub(super) struct Flight {
    now: u32,
    max: u32,
    waiting_max: u32,
    /// Request-nanoseconds since `from_ns`, up to `since_ns`.
    area: u128,
    since_ns: u64,
    from_ns: Option<u64>,
    until_ns: Option<u64>,
    /// First and last write of the requests that were the first of their slots.
    wave_ns: Option<(u64, u64)>,
}

impl Flight {
    /// A request goes to its client.
    pub fn begin(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.now += 1;
        self.max = self.max.max(self.now);
    }

    /// It has ended.
    pub fn end(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.now = self.now.saturating_sub(1);
    }

    /// The part whose mean counts begins; a later call moves its beginning.
    pub fn steady_from(&mut self, at_ns: u64) {
        self.from_ns = Some(at_ns);
        self.since_ns = at_ns;
        self.area = 0;
    }

    /// That part ends; the first call counts.
    pub fn steady_until(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.until_ns.get_or_insert(at_ns);
    }

    /// So many requests are due and wait for a slot.
    pub fn waiting(&mut self, requests: u32) {
        self.waiting_max = self.waiting_max.max(requests);
    }

    /// The first request of a slot was sent.
    pub fn first_of_slot(&mut self, sent_ns: u64) {
        let (first, last) = self.wave_ns.unwrap_or((sent_ns, sent_ns));
        self.wave_ns = Some((first.min(sent_ns), last.max(sent_ns)));
    }

    /// The most in flight at once.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// The most that waited at once.
    pub fn waiting_max(&self) -> u32 {
        self.waiting_max
    }

    /// Mean in flight over the part that counts; none if it has no length.
    pub fn mean(&self) -> Option<f64> {
        let length_ns = self.since_ns.checked_sub(self.from_ns?)?;
        (length_ns > 0).then(|| self.area as f64 / length_ns as f64)
    }

    /// From the first write of a slot's first request to the last one.
    pub fn first_wave_ms(&self) -> Option<f64> {
        let (first, last) = self.wave_ns?;
        Some((last - first) as f64 / 1e6)
    }

    fn pass(&mut self, at_ns: u64) {
        if self.from_ns.is_some() && self.until_ns.is_none() {
            let passed = at_ns.saturating_sub(self.since_ns);
            self.area += u128::from(passed) * u128::from(self.now);
            self.since_ns += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_steady_part() {
        let mut flight = Flight::default();
        flight.begin(0);
        flight.begin(10);
        flight.steady_from(10);
        flight.end(20);
        flight.begin(30);
        flight.begin(40);
        flight.steady_until(50);
        flight.end(1_000);
        flight.steady_until(2_000);
        // 2 for 10 ns, 1 for 10, 2 for 10, 3 for 10.
        assert_eq!(flight.mean(), Some(2.0));
        assert_eq!(flight.max(), 3);
    }

    #[test]
    fn a_later_beginning_forgets_what_was_before() {
        let mut flight = Flight::default();
        flight.steady_from(0);
        flight.begin(0);
        flight.begin(90);
        flight.steady_from(100);
        flight.end(200);
        flight.steady_until(200);
        assert_eq!(flight.mean(), Some(2.0));
    }

    #[test]
    fn no_length_is_no_mean() {
        let mut flight = Flight::default();
        assert_eq!(flight.mean(), None);
        flight.steady_from(5);
        flight.steady_until(5);
        assert_eq!(flight.mean(), None);
    }

    #[test]
    fn the_first_wave_is_from_the_first_write_to_the_last() {
        let mut flight = Flight::default();
        assert_eq!(flight.first_wave_ms(), None);
        for sent_ns in [5_000_000, 1_000_000, 3_000_000] {
            flight.first_of_slot(sent_ns);
        }
        assert_eq!(flight.first_wave_ms(), Some(4.0));
    }
}
