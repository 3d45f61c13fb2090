//! Several tests at once: p values adjusted so that the family has one chance of a false alarm.

use super::error::StatsError;

/// Step-down adjusted p values, in the order given: Holm, "A simple sequentially rejective multiple
/// test procedure", Scandinavian Journal of Statistics 6 (1979).
pub fn holm(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    if let Some(bad) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(StatsError::NotAProbability(*bad));
    }
    let mut ascending: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    ascending.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut largest = 0.0_f64;
    let mut adjusted = p.to_vec();
    for (rank, (index, p)) in ascending.iter().enumerate() {
        let left = (ascending.len() - rank) as f64;
        largest = largest.max(p * left).min(1.0);
        if let Some(place) = adjusted.get_mut(*index) {
            *place = largest;
        }
    }
    Ok(adjusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_and_large_ones_stay_in_order_and_below_one() {
        assert_eq!(holm(&[0.5, 0.5, 0.9]), Ok(vec![1.0, 1.0, 1.0]));
        assert_eq!(holm(&[]), Ok(vec![]));
        assert!(holm(&[0.1, f64::NAN]).is_err());
        assert_eq!(holm(&[1.5]), Err(StatsError::NotAProbability(1.5)));
    }
}
