//! Points of many nodes by one formula: computed once for each value where there are fewer values than nodes, since a
//! division costs more than all the rest.

/// Puts `formula(points)` in the place of all points. All points lie between `fewest` and `most`.
pub(super) fn all(points: &mut [i64], fewest: i64, most: i64, formula: impl Fn(i64) -> i64) {
    let values = usize::try_from(most.saturating_sub(fewest)).unwrap_or(usize::MAX);
    if values >= points.len() {
        points.iter_mut().for_each(|points| *points = formula(*points));
        return;
    }
    let table: Vec<i64> = (fewest..=most).map(formula).collect();
    for points in points {
        // Within the table, since all points are between the two.
        let place = usize::try_from(*points - fewest).unwrap_or_default();
        *points = table.get(place).copied().unwrap_or_default();
    }
}
