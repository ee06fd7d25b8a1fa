//! Lengths of time as routers show them.

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// For a column: `02:17:33`, and from a day on `3d4h`.
pub(super) fn clock(seconds: u64) -> String {
    let hours = seconds / HOUR;
    if seconds >= DAY {
        return format!("{}d{}h", seconds / DAY, hours % 24);
    }
    format!("{hours:02}:{:02}:{:02}", seconds % HOUR / MINUTE, seconds % MINUTE)
}

/// For a sentence, in its largest unit: `45s`, `12m`, `3h`, `2d`.
pub(crate) fn rough(seconds: u64) -> String {
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        DAY.. => format!("{}d", seconds / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_until_a_day_has_passed() {
        let table = [
            (0, "00:00:00", "0s"),
            (59, "00:00:59", "59s"),
            (60, "00:01:00", "1m"),
            (3599, "00:59:59", "59m"),
            (8253, "02:17:33", "2h"),
            (86_399, "23:59:59", "23h"),
            (86_400, "1d0h", "1d"),
            (3 * DAY + 4 * HOUR + 3599, "3d4h", "3d"),
            (u64::MAX, "213503982334601d7h", "213503982334601d"),
        ];
        for (seconds, column, sentence) in table {
            assert_eq!((clock(seconds).as_str(), rough(seconds).as_str()), (column, sentence));
        }
    }
}
