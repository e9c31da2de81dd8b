//! Writes a layout as a table of a configuration file.

use crate::core::{
    instant::format_unix_ms_for_reading,
    layout::{FieldOrder, Layout, Widths},
    preset::Preset,
};

/// Returns the `[layout]` table that gives exactly this layout.
pub(super) fn layout_table(layout: &Layout, preset: Option<Preset>) -> String {
    let epoch = format!("epoch = \"{}\"", format_unix_ms_for_reading(layout.epoch_ms()));
    let mut lines = vec!["[layout]".to_owned()];
    if let Some(preset) = preset {
        lines.push(format!("preset = \"{}\"", preset.name()));
        let has_its_epoch = preset.spec().epoch_ms == layout.epoch_ms();
        // A preset whose timestamp has run out needs an explicit epoch.
        if !has_its_epoch || preset.check_own_epoch().is_err() {
            lines.push(epoch);
        }
    } else {
        let Widths { timestamp, data_center, worker, rollback, reserved, .. } = layout.widths();
        lines.extend([
            format!("time_unit = \"{}\"", layout.unit().name()),
            epoch,
            format!("timestamp_bits = {timestamp}"),
            format!("data_center_bits = {data_center}"),
            format!("worker_bits = {worker}"),
            format!("rollback_bits = {rollback}"),
            format!("reserved_bits = {reserved}"),
            format!("min_sequence = {}", layout.min_sequence()),
            format!("max_sequence = {}", layout.max_sequence()),
        ]);
        if layout.order() != FieldOrder::default() {
            lines.push(format!("order = \"{}\"", layout.order().name()));
        }
    }
    let constants = [
        ("data_center", layout.data_center()),
        ("rollback_initial", u64::from(layout.rollback_initial())),
        ("reserved_value", layout.reserved()),
    ];
    let set = constants.into_iter().filter(|(_, value)| *value > 0);
    lines.extend(set.map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}
