use std::{collections::HashSet, env, fmt::Write as _, fs};

use super::*;

/// A search that may have taken a row; the default one has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Row(u8);

type Machine = State<u8, Row>;

fn held(lease: u8, rows: Rows) -> Held<u8> {
    Held { lease, rows, clock_ahead_since: None }
}

/// Returns every state. Lease 1 is in use, and lease 2 arrives.
fn states() -> Vec<(&'static str, Machine)> {
    let checked = || held(1, Rows::Checked);
    vec![
        ("Starting", State::Starting),
        ("Preparing", State::Preparing(Row(1))),
        ("Searching", State::Searching(Row(1))),
        ("Arriving", State::Arriving { lease: 2, before: Some(checked()) }),
        ("Held", State::Held(checked())),
        ("Moving", State::Moving(checked(), Row(1))),
        ("Refusing", State::Refusing(checked(), Row(1))),
        ("Ended", State::Ended),
    ]
}

/// Returns the states that differ from those of [`states`] only in `rows`, or have no lease before.
fn other_states() -> Vec<Machine> {
    let unchecked = || held(1, Rows::Unchecked);
    vec![
        State::Arriving { lease: 2, before: None },
        State::Arriving { lease: 2, before: Some(unchecked()) },
        State::Held(unchecked()),
        State::Moving(unchecked(), Row(1)),
        State::Refusing(unchecked(), Row(1)),
    ]
}

/// Returns every event. Lease 3 is a new one. The clock has been ahead for longer than the
/// patience.
fn events() -> Vec<(&'static str, Event<u8>)> {
    let patience = Duration::ZERO;
    vec![
        ("NothingSaved", Event::NothingSaved),
        ("Resumed", Event::Resumed(3)),
        ("Prepared", Event::Prepared),
        ("RowsMissing", Event::RowsMissing),
        ("Leased", Event::Leased(3)),
        ("Saved", Event::Saved),
        ("NotSaved", Event::NotSaved),
        ("ClockTrusted", Event::ClockTrusted),
        ("ClockAhead", Event::ClockAhead { now: Duration::from_secs(9), patience }),
        ("ClockBack", Event::ClockBack),
        ("NothingElse", Event::NothingElse),
        ("Rotated", Event::Rotated),
        ("ClockCaughtUp", Event::ClockCaughtUp),
        ("Lost", Event::Lost),
        ("Panicked", Event::Panicked),
        ("Stopped", Event::Stopped),
    ]
}

fn name(state: &Machine) -> &'static str {
    let named = states().into_iter();
    let same = |other: &Machine| std::mem::discriminant(other) == std::mem::discriminant(state);
    named.filter(|(_, other)| same(other)).map(|(name, _)| name).next().expect("each is listed")
}

fn effect_name(effect: &Effect<u8, Row>) -> String {
    match effect {
        Effect::Issue => "issue".into(),
        Effect::Seal(lease) => format!("seal {lease}"),
        Effect::Release(lease) => format!("release {lease}"),
        Effect::UseUp(lease) => format!("use up {lease}"),
        Effect::Abandon(_) => "abandon".into(),
        Effect::ReportRefused => "report".into(),
    }
}

/// Returns the leases and the searches in a state and in effects.
fn content(state: &Machine, effects: &[Effect<u8, Row>]) -> (Vec<u8>, Vec<Row>) {
    let (mut leases, search) = state.clone().end();
    let mut searches = Vec::from_iter(search);
    for effect in effects {
        match *effect {
            Effect::Seal(lease) | Effect::Release(lease) | Effect::UseUp(lease) => {
                leases.push(lease);
            }
            Effect::Abandon(search) => searches.push(search),
            Effect::Issue | Effect::ReportRefused => {}
        }
    }
    leases.sort_unstable();
    searches.retain(|search| *search != Row::default());
    (leases, searches)
}

#[test]
fn no_lease_and_no_search_is_forgotten_or_made_up() {
    let states = states().into_iter().map(|(_, state)| state).chain(other_states());
    for state in states {
        for (event_name, event) in events() {
            let (mut leases, mut searches) = content(&state, &[]);
            let Some(Transition { state: after, effects }) = next(state.clone(), event.clone())
            else {
                continue;
            };
            match event {
                Event::Resumed(lease) => leases.push(lease),
                // The search that leased a row is over; after a panic, nothing is known of any
                // search.
                Event::Leased(lease) => {
                    leases.push(lease);
                    searches.clear();
                }
                Event::Panicked => searches.clear(),
                _ => {}
            }
            let context = format!("{state:?} {event_name}: {after:?} {effects:?}");
            assert_eq!(content(&after, &effects), (leases, searches), "{context}");
        }
    }
}

#[test]
fn every_state_is_left_by_a_stop_and_by_a_panic() {
    for state in states().into_iter().map(|(_, state)| state).chain(other_states()) {
        let stopped = next(state.clone(), Event::Stopped).map(|it| it.state);
        assert_eq!(stopped, Some(State::Ended));
        let rows = state.rows();
        let panicked = next(state, Event::Panicked).map(|it| it.state);
        assert_eq!(panicked, Some(State::without_lease(rows, Row::default())));
    }
}

#[test]
fn lease_is_left_once_the_clock_was_ahead_for_as_long_as_is_waited() {
    let seconds = Duration::from_secs;
    let ahead = |now| Event::ClockAhead { now: seconds(now), patience: seconds(10) };
    let after = |state, event| {
        let Transition { state, effects } = next(state, event).expect("it can happen");
        (state, effects)
    };
    let (state, effects) = after(State::<u8, Row>::Held(held(1, Rows::Checked)), ahead(5));
    assert_eq!(effects, []);
    let (trusted, _) = after(state.clone(), Event::ClockTrusted);
    assert_eq!(trusted, State::Held(held(1, Rows::Checked)));
    let (state, effects) = after(state, ahead(14));
    assert!(state.held().is_some_and(|held| held.clock_ahead_since == Some(seconds(5))));
    assert_eq!(effects, []);
    let (state, effects) = after(state, ahead(15));
    assert_eq!((state, effects), (State::Searching(Row(0)), vec![Effect::Release(1)]));
}

#[test]
fn missing_rows_are_looked_at_again_with_and_without_a_lease() {
    let after = |state, event| next(state, event).expect("it can happen").state;
    for state in
        [State::Held(held(1, Rows::Checked)), State::Moving(held(1, Rows::Checked), Row(1))]
    {
        let missing: Machine = after(state, Event::RowsMissing);
        assert_eq!(missing.held().map(|held| held.rows), Some(Rows::Unchecked));
        assert!(matches!(after(missing.clone(), Event::Lost), State::Preparing(_)));
        let found = after(missing, Event::Prepared);
        assert_eq!(found.held().map(|held| held.rows), Some(Rows::Checked));
        assert!(matches!(after(found, Event::Lost), State::Searching(_)));
    }
}

/// Visits every state that can be reached, whichever lease it has. From each but `Ended` the task
/// can hold a lease again.
#[test]
fn every_state_leads_to_a_lease() {
    let successors = |state: &Machine| -> Vec<Machine> {
        let events = events().into_iter().filter(|(_, event)| *event != Event::Stopped);
        let after = events.filter_map(|(_, event)| next(state.clone(), event));
        after.map(|it| it.state).collect()
    };
    let mut reached = vec![State::Starting];
    let mut looked = 0;
    while let Some(state) = reached.get(looked).cloned() {
        looked += 1;
        for state in successors(&state) {
            if !reached.contains(&state) {
                reached.push(state);
            }
        }
    }
    let is_held = |state: &&Machine| matches!(state, State::Held(_));
    let mut leading: Vec<_> = reached.iter().filter(is_held).cloned().collect();
    while leading.len() < reached.len() {
        let leads = |state: &&Machine| {
            !leading.contains(state) && successors(state).iter().any(|it| leading.contains(it))
        };
        let more: Vec<_> = reached.iter().filter(leads).cloned().collect();
        assert!(
            !more.is_empty(),
            "no way out: {:?}",
            reached.iter().find(|it| !leading.contains(it))
        );
        leading.extend(more);
    }
    for (name, _) in states() {
        let is_reached = reached.iter().any(|state| self::name(state) == name);
        assert_eq!(is_reached, name != "Ended", "{name}");
    }
}

/// Returns the table of [`next`] for `docs/architecture.md`, and its diagram.
fn document() -> String {
    let mut text = String::from("| |");
    for (name, _) in states() {
        write!(text, " {name} |").expect("a string");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(states().len()));
    let (mut edges, mut drawn) = (String::new(), HashSet::new());
    for (event_name, event) in events() {
        write!(text, "\n| **{event_name}** |").expect("a string");
        for (before, state) in states() {
            let Some(Transition { state: after, effects }) = next(state, event.clone()) else {
                text.push_str(" |");
                continue;
            };
            let after = name(&after);
            let effects: Vec<_> = effects.iter().map(effect_name).collect();
            let shown = if after == before { "·" } else { after };
            write!(
                text,
                " {}",
                [shown.to_owned()].into_iter().chain(effects).collect::<Vec<_>>().join(", ")
            )
            .expect("a string");
            text.push_str(" |");
            // Left out of the diagram, since every state has them.
            let is_drawn = !matches!(event, Event::Panicked | Event::Stopped) && after != before;
            if is_drawn && drawn.insert((before, after, event_name)) {
                writeln!(edges, "    {before} --> {after}: {event_name}").expect("a string");
            }
        }
    }
    format!("{text}\n\n```mermaid\nstateDiagram-v2\n    [*] --> Starting\n{edges}```\n")
}

/// `UPDATE=1 cargo test -p raindrop-core the_table_of_states` rewrites it.
#[test]
fn the_table_of_states_is_kept() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/architecture.md");
    let page = fs::read_to_string(path).expect("the page");
    let marks = ["<!-- states -->\n", "<!-- end of states -->"];
    let [begin, end] = marks.map(|mark| page.find(mark).expect("both marks"));
    let begin = begin + marks[0].len();
    if env::var_os("UPDATE").is_some() {
        let page = [&page[..begin], &document(), &page[end..]].concat();
        return fs::write(path, page).expect("a writable page");
    }
    assert_eq!(&page[begin..end], document(), "UPDATE=1 rewrites it");
}
