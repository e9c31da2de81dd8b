use proptest::{option::weighted, prelude::*};

use super::*;
use crate::{
    config::Inputs,
    core::layout::{FieldOrder, Layout},
};

fn planned(settings: &[(&'static str, String)]) -> Result<Plan, ConfigError> {
    let flag = |(parameter, value): &(&'static str, String)| {
        let found = PLAN_KEYS.into_iter().find(|key| key.parameter == *parameter);
        let PlanKey { parameter: flag, key, .. } = found.expect("a parameter");
        FlagValue { flag, key, value: value.clone() }
    };
    Plan::of_flags(settings.iter().map(flag).collect())
}

/// Returns the layout of a configuration file with this text.
fn layout_of(toml: &str) -> Layout {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("raindrop.toml");
    std::fs::write(&file, toml).expect("written");
    let config = Config::load(&Inputs { file: Some(file), ..Inputs::default() });
    let config = config.unwrap_or_else(|error| panic!("{error}: {toml}"));
    config.keepers().next().expect("a layout").layout.clone()
}

fn assert_toml_gives_the_layout(plan: &Plan) {
    assert_eq!(layout_of(&plan.toml), plan.keeper.layout, "{}", plan.toml);
}

#[test]
fn the_table_of_each_preset_gives_its_layout() {
    for preset in Preset::ALL {
        let named = ("preset", preset.name().to_owned());
        let plan = planned(std::slice::from_ref(&named)).expect("valid");
        assert_toml_gives_the_layout(&plan);
        assert!(plan.toml.contains(preset.name()) && !plan.toml.contains("bits"), "{}", plan.toml);
        let later = ("epoch", "2026-11-20T12:00:00.5Z".to_owned());
        assert_toml_gives_the_layout(&planned(&[named, later]).expect("valid"));
    }
    assert_eq!(
        planned(&[("preset", "lingdu".into())]).expect("valid").toml,
        "[layout]\npreset = \"lingdu\"\nepoch = \"2017-12-20T16:00:00Z\"\n"
    );
}

#[test]
fn the_configured_layout_has_its_constants() {
    let text = "[layout]\npreset = \"twitter\"\ndata_center = 3\n";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("raindrop.toml");
    std::fs::write(&file, text).expect("written");
    let config = Config::load(&Inputs { file: Some(file), ..Inputs::default() }).expect("valid");
    assert_eq!(Plan::configured(&config).expect("a layout").toml, text);
}

#[test]
fn few_ids_for_all_codes_are_told_with_their_number() {
    let plan = |pairs: &[(&'static str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        planned(&pairs).expect("valid").keeper
    };
    let mut few = plan(&[("time_unit", "hour"), ("timestamp_bits", "40")]);
    let said = scarce_ids(&few).expect("2 a second");
    assert!(said.starts_with("a node has 8192 IDs in each hour"), "{said}");
    few.issue.codes_shared = false;
    assert_eq!(scarce_ids(&few), None);
    for unit in ["millisecond", "second", "minute", "hour", "day"] {
        assert_eq!(scarce_ids(&plan(&[("time_unit", unit)])), None, "{unit}");
    }
}

#[test]
fn errors_name_the_parameter() {
    let error = planned(&[("worker_bits", "2".into()), ("reserved_value", "1".into())]);
    assert_eq!(
        error.expect_err("two violations").to_string(),
        "layout.worker_bits = 2 (worker_bits): must be 3 to 16"
    );
    let error = planned(&[("rollback_initial", "2".into())]).expect_err("too large").to_string();
    assert_eq!(error, "layout.rollback_initial = 2 (rollback_initial): must be 0 to 1 (1 bits)");
}

/// A value of each parameter, mostly one that can be used.
fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let number = |largest: u64| prop_oneof![9 => 0..=largest, 1 => any::<u64>()];
    let names = ["millisecond", "10ms", "second", "minute", "hour", "day"];
    let unit = prop::sample::select(names.to_vec()).prop_map(str::to_owned);
    let years = (0_u32..=9999, 1_u32..=12, 1_u32..=28);
    let epoch =
        years.prop_map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}T11:59:59Z"));
    let order = prop::sample::select(FieldOrder::ALL.to_vec());
    let order = order.prop_map(|order| order.name().to_owned());
    let texts = (weighted(0.7, unit), weighted(0.5, epoch), weighted(0.3, order));
    let numbers: Vec<_> = [
        ("timestamp_bits", 55),
        ("data_center_bits", 10),
        ("data_center", 3),
        ("worker_bits", 16),
        ("rollback_bits", 3),
        ("rollback_initial", 3),
        ("reserved_bits", 5),
        ("reserved_value", 3),
        ("min_sequence", 9),
        ("max_sequence", 4096),
    ]
    .into_iter()
    .map(|(name, largest)| weighted(0.3, number(largest)).prop_map(move |value| (name, value)))
    .collect();
    (texts, numbers).prop_map(|((unit, epoch, order), numbers)| {
        let texts = [("time_unit", unit), ("epoch", epoch), ("order", order)].into_iter();
        let numbers =
            numbers.into_iter().map(|(name, value)| (name, value.map(|it| it.to_string())));
        texts.chain(numbers).filter_map(|(name, value)| Some((name, value?))).collect()
    })
}

proptest! {
    #[test]
    fn any_settings_are_planned_or_refused_and_their_table_gives_the_layout(settings in settings()) {
        match planned(&settings) {
            Ok(plan) => assert_toml_gives_the_layout(&plan),
            Err(error) => prop_assert!(error.to_string().contains("must be "), "{error}"),
        }
    }
}
