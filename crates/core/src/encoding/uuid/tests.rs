use std::{collections::HashSet, sync::Arc};

use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use super::*;
use crate::{
    clock::ManualClock,
    encoding::Encoder,
    issue::{ClaimError, Generator, IssueSettings},
    layout::{FieldOrder, Fields, LayoutSpec, TimeUnit},
    preset::Preset,
};

const RFC: &str = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

/// RFC 9562, appendix A.6.
#[test]
fn the_example_of_the_rfc_has_its_fields_where_the_rfc_has_them() {
    let layout = Preset::Twitter.layout();
    let uuid = Uuid::try_parse(RFC).expect("a UUID");
    let id = decode(Encoding::Uuid7, RFC, &layout).expect("version 7");
    assert_eq!(layout.parse(id, 0).expect("63 bits").unix_ms, 0x017f_22e2_79b0);
    let below = layout.widths().below_timestamp();
    // rand_a and the first bits of rand_b.
    let (rand_a, rand_b) = (0xcc3_u64, 0x18c4_dc0c_0c07_398f_u64);
    let fields = rand_a << (below - 12) | rand_b >> (62 - (below - 12));
    assert_eq!(id.get() & ((1 << below) - 1), fields);
    let random = u128::from(rand_b) & low_mask(FREE_BITS - below);
    assert_eq!(uuid_of(id, &layout, random), uuid);
}

/// The contract of the clients, which make UUIDs of the IDs that they lease.
#[test]
fn vectors_of_the_clients_are_those_of_the_service() {
    let vectors = include_str!("../../../../../clients/conformance/uuids.json");
    let vectors: Vec<Value> = serde_json::from_str(vectors).expect("JSON");
    for vector in &vectors {
        let text = |name: &str| vector[name].as_str().expect("a text");
        let layout = Layout::from_canonical(text("layout")).expect("a layout");
        let widths = layout.widths();
        let time = json!({
            "epoch_ms": layout.epoch_ms(),
            "unit_ms": layout.unit().millis(),
            "shift": widths.below_timestamp(),
            "bits": widths.timestamp,
        });
        assert_eq!(vector["time"], time);
        let id = Id::new(text("id").parse().expect("a number")).expect("63 bits");
        let random = u128::from_str_radix(text("random"), 16).expect("a number");
        let uuid = uuid_of(id, &layout, random).hyphenated().to_string();
        assert_eq!(uuid, text("uuid"), "{}", text("why"));
        assert_eq!(decode(Encoding::Uuid7, &uuid, &layout), Ok(id));
    }
    assert_eq!(vectors.len(), 8);
    let contract = include_str!("../../../../../docs/clients/uuids.md");
    let named = |vector: &&Value| {
        let (id, uuid) = (vector["id"].as_str(), vector["uuid"].as_str());
        contract.contains(&format!("| {} |", id.expect("a text")))
            && contract.contains(&format!("`{}` |", uuid.expect("a text")))
    };
    assert_eq!(vectors.iter().filter(named).count(), 5);
}

/// `valid.json` of TypeID 0.3.
#[test]
fn published_typeids_are_written_and_read() {
    for (digits, uuid) in [
        ("00000000000000000000000000", "00000000-0000-0000-0000-000000000000"),
        ("00000000000000000000000001", "00000000-0000-0000-0000-000000000001"),
        ("0000000000000000000000000a", "00000000-0000-0000-0000-00000000000a"),
        ("0000000000000000000000000g", "00000000-0000-0000-0000-000000000010"),
        ("00000000000000000000000010", "00000000-0000-0000-0000-000000000020"),
        ("7zzzzzzzzzzzzzzzzzzzzzzzzz", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ("0123456789abcdefghjkmnpqrs", "0110c853-1d09-52d8-d73e-1194e95b5f19"),
        ("01h455vb4pex5vsknk084sn02q", "01890a5d-ac96-774b-bcce-b302099a8057"),
    ] {
        let uuid = Uuid::try_parse(uuid).expect("a UUID");
        let mut written = String::new();
        write_typeid(&mut written, uuid).expect("a string takes any text");
        assert_eq!(written, digits);
        assert_eq!(read_typeid(digits), Ok(uuid));
    }
}

/// The suffixes of `invalid.json` of TypeID 0.3.
#[test]
fn invalid_typeids_are_refused() {
    for (digits, said) in [
        ("1234567890123456789012345", "has 26 digits, not 25"),
        ("123456789012345678901234567", "has 26 digits, not 27"),
        ("1234567890123456789012345 ", "position 25: ' '"),
        ("0123456789ABCDEFGHJKMNPQRS", "position 10: 'A'"),
        ("123456789-123456789-123456", "position 9: '-'"),
        ("ooooooiiiiiiuuuuuuulllllll", "position 0: 'o'"),
        ("i23456789ol23456789oi23456", "position 0: 'i'"),
        ("123456789-0123456789-0123456", "position 9: '-'"),
        ("8zzzzzzzzzzzzzzzzzzzzzzzzz", "first digit after the prefix is 0 to 7"),
        ("", "has 26 digits, not 0"),
        ("é", "position 0: 'é'"),
    ] {
        let error = read_typeid(digits).expect_err(digits).to_string();
        assert!(error.contains(said), "{digits:?}: {error}");
    }
}

/// The prefixes of `valid.json` and `invalid.json` of TypeID 0.3.
#[test]
fn prefixes_of_typeids_are_checked() {
    for prefix in ["", "prefix_", "pre_fix_"] {
        assert_eq!(Encoding::Typeid.check_prefix(prefix), Ok(()));
    }
    let long = format!("{}_", "a".repeat(64));
    for prefix in [
        "PREFIX_",
        "12345_",
        "pre.fix_",
        "préfix_",
        "  prefix_",
        &long,
        "_",
        "_prefix_",
        "prefix__",
        "ord-",
    ] {
        let error = Encoding::Typeid.check_prefix(prefix).expect_err(prefix).to_string();
        assert!(error.starts_with(&format!("{prefix:?} is not the prefix of a TypeID")), "{error}");
        assert_eq!(Encoding::Uuid7.check_prefix(prefix), Ok(()));
    }
}

#[test]
fn uuids_of_others_say_their_version_and_time() {
    let layout = Preset::Raindrop.layout();
    let read = |text| decode(Encoding::Uuid7, text, &layout);
    let foreign = |version, unix_ms| Err(InvalidId::ForeignUuid { version, unix_ms });
    // RFC 9562, appendices A.1, A.3 and A.5: 2022-02-22 19:22:22 UTC.
    assert_eq!(read("C232AB00-9414-11EC-B3C8-9F6BDECED846"), foreign(1, Some(1_645_557_742_000)));
    assert_eq!(read("919108f7-52d1-4320-9bac-f847db4148a8"), foreign(4, None));
    assert_eq!(read("1EC9414C-232A-6B00-B3C8-9F6BDECED846"), foreign(6, Some(1_645_557_742_000)));
    // Versions 1 and 6 begin in 1582.
    let begin = foreign(1, Some(-12_219_292_800_000));
    assert_eq!(read("00000000-0000-1000-8000-000000000000"), begin);
    for nil_or_max in
        ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
    {
        assert_eq!(read(nil_or_max), Err(InvalidId::UuidVariant));
    }
    // Version 7, before the layout's epoch.
    assert_eq!(read("00000000-0001-7000-8000-000000000000"), foreign(7, Some(1)));
    for (text, said) in [
        ("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", "found `g`"),
        ("017f22e2", "found 8"),
        ("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", "variant"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn layouts_without_uuids_are_refused() {
    let reason = |layout: &Layout| {
        Encoder::new(Encoding::Uuid7, false, layout).expect_err("no UUIDs").to_string()
    };
    assert!(reason(&Preset::WestidQr.layout()).contains("wraps"));
    let seconds = LayoutSpec::for_unit(TimeUnit::Second).build().expect("a layout");
    assert!(reason(&seconds).contains("that of this layout is second"));
    let early = LayoutSpec { epoch_ms: -1000, ..LayoutSpec::for_unit(TimeUnit::Millisecond) };
    let early = early.build().expect("a layout");
    assert!(reason(&early).contains("1970 or later"));
    assert!(reason(&Preset::Sonyflake.layout()).contains("that of this layout is 10ms"));
    let none = Encoder::new(Encoding::Typeid, false, None).expect_err("plain numbers");
    assert_eq!(none.to_string(), "typeid needs a layout, and plain numbers have none");
}

#[test]
fn random_bits_differ_and_fill_what_the_fields_leave() {
    let layout = Preset::Raindrop.layout();
    let bits = random_bits(Encoding::Uuid7, &layout).expect("milliseconds");
    assert_eq!(bits, 74 - layout.widths().below_timestamp());
    let encoder = Encoder::new(Encoding::Uuid7, false, &layout).expect("milliseconds");
    let id = Id::new(1 << 60).expect("63 bits");
    // More than two blocks.
    let texts: Vec<u128> = (0..3 * BLOCK)
        .map(|_| Uuid::try_parse(&encoder.text(id).to_string()).expect("a UUID").as_u128())
        .collect();
    assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len());
    // Every random bit is 1 in some and 0 in others, and no other bit ever differs.
    let changing = texts.iter().fold(0, |bits, text| bits | (text ^ texts[0]));
    assert_eq!(changing, low_mask(bits));
    let smallest = encoder.smallest_text(id).to_string();
    assert!(smallest.ends_with("000000000000"), "{smallest}");
}

/// How many UUIDs each of four nodes issues.
const UUIDS_OF_NODE: usize = 25_000;

/// By how many milliseconds the clocks of the nodes step before a claim, again and again. A node
/// holds its time for the smaller step back, and refuses claims after the larger one.
const STEPS_MS: [i64; 9] = [1, 0, 3, -400, 7, 900, 0, -2_500, 40];

/// What one node issued while its clock stepped.
struct Issued {
    uuids: Vec<Uuid>,
    held: usize,
    refused: usize,
}

fn issue_while_the_clock_steps(layout: &Layout, worker: u32) -> Issued {
    let clock = Arc::new(ManualClock::new(1_795_000_000_000 + i64::from(worker)));
    let settings = IssueSettings::default();
    let generator = Generator::with_worker(layout.clone(), worker.into(), &settings, clock.clone());
    let generator = generator.expect("a worker id of the layout");
    let encoder = Encoder::new(Encoding::Uuid7, false, layout).expect("milliseconds");
    let mut issued = Issued { uuids: Vec::new(), held: 0, refused: 0 };
    for step_ms in STEPS_MS.into_iter().cycle().skip(worker as usize) {
        clock.step(step_ms);
        match generator.claim("order", 100) {
            Ok(claim) => {
                clock.advance(claim.wait);
                issued.held += usize::from(claim.hold_began);
                let texts = claim.ids.map(|id| encoder.text(id).to_string());
                issued.uuids.extend(texts.map(|text| Uuid::try_parse(&text).expect("a UUID")));
            }
            Err(ClaimError::ClockRollback { retry_after, .. }) => {
                clock.advance(retry_after);
                issued.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        if issued.uuids.len() >= UUIDS_OF_NODE {
            break;
        }
    }
    issued
}

#[test]
fn uuids_of_nodes_whose_clocks_step_differ_and_sort_as_issued() {
    let layout = Preset::Raindrop.layout();
    let nodes = [1, 2, 3, 4].map(|worker| issue_while_the_clock_steps(&layout, worker));
    let mut sorted: Vec<Uuid> = nodes.iter().flat_map(|node| node.uuids.clone()).collect();
    sorted.sort_unstable_by_key(|uuid| *uuid.as_bytes());
    for (worker, node) in (1..).zip(&nodes) {
        assert!(node.held > 0 && node.refused > 0, "{} {}", node.held, node.refused);
        let worker_of = |uuid| layout.decompose(id_of(uuid, &layout).expect("an ID")).worker;
        let of_node = sorted.iter().copied().filter(|uuid| worker_of(*uuid) == worker);
        assert!(of_node.eq(node.uuids.iter().copied()), "node {worker}");
    }
    let random = random_bits(Encoding::Uuid7, &layout).expect("milliseconds");
    let count = sorted.len();
    sorted.dedup_by_key(|uuid| uuid.as_u128() >> random);
    assert_eq!((sorted.len(), count), (4 * UUIDS_OF_NODE, 4 * UUIDS_OF_NODE));
}

prop_compose! {
    /// A layout with ticks of a millisecond; the sequence has the bits that the others leave.
    fn any_layout()(
        order in 0..FieldOrder::ALL.len(), data_center_bits in 0_u32..=4, worker_bits in 3_u32..=12,
        rollback_bits in 0_u32..=3, reserved_bits in 0_u32..=2,
        epoch_ms in 0..2_000_000_000_000_i64,
    ) -> Layout {
        let order = FieldOrder::ALL[order];
        let spec = LayoutSpec {
            epoch_ms, order, data_center_bits, worker_bits, rollback_bits, reserved_bits,
            ..LayoutSpec::for_unit(TimeUnit::Millisecond)
        };
        spec.build().expect("at most 21 bits beside the timestamp and the sequence")
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn uuids_are_read_back_and_sort_as_their_ids(
        layout in any_layout(),
        ticks in prop::array::uniform2(0..1_u64 << 40),
        rest in prop::array::uniform2(any::<u64>()),
    ) {
        let below = layout.widths().below_timestamp();
        let id = |index: usize| {
            let number = ticks[index] << below | rest[index] & ((1 << below) - 1);
            Id::new(number).expect("63 bits")
        };
        let (one, other) = (id(0), id(1));
        for encoding in [Encoding::Uuid7, Encoding::Typeid] {
            let encoder = Encoder::new(encoding, true, &layout).expect("milliseconds");
            let text = |id| encoder.text(id).to_string();
            prop_assert_eq!(encoding.decode(&text(one), Some(&layout)), Ok(one));
            prop_assert_eq!(text(one).len(), encoding.padded_width().expect("fixed"));
            if one != other {
                prop_assert_eq!(text(one) < text(other), one < other);
            }
            let smallest = encoder.smallest_text(one).to_string();
            prop_assert!(smallest <= text(one));
        }
        prop_assert_eq!(layout.decompose(one).tick, ticks[0]);
        let Fields { tick, .. } = layout.decompose(other);
        prop_assert_eq!(tick, ticks[1]);
    }
}
