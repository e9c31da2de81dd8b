//! The key without which every client gets IDs.

use super::*;

#[test]
fn the_token_file_is_never_forgotten_in_silence() {
    let right = "misspelled, must be RAINDROP__AUTH__TOKENS_FILE";
    let empty = "auth.tokens_file = ";
    for (name, said) in [
        ("RAINDROP__AUTH__TOKENS_FILE", empty),
        ("RAINDROP_AUTH__TOKENS_FILE", right),
        ("RAINDROP_AUTH_TOKENS_FILE", empty),
        ("RAINDROP_AUTH_TOKEN_FILE", right),
        ("RAINDROP_TOKENS_FILE", right),
        ("RAINDROP__AUTH__TOKEN_FILE", "auth.token_file (environment variable"),
    ] {
        for value in ["", " ", "tokens.toml"] {
            if said == empty && value == "tokens.toml" {
                continue;
            }
            let (_folder, mut inputs) = file("auth.tokens_file = 'tokens.toml'");
            inputs.environment.insert(name.into(), value.into());
            let found = problems(&inputs);
            assert!(found.len() == 1 && found[0].contains(said), "{name}={value:?}: {found:?}");
        }
    }
    let (folder, mut inputs) = file("");
    inputs.file = None;
    let dot_env = folder.path().join(".env");
    fs::write(&dot_env, "RAINDROP__AUTH__TOKENS_FILE=\n").expect("written");
    inputs.dot_env = Some(dot_env);
    assert_eq!(
        problems(&inputs),
        [
            "auth.tokens_file = nothing (RAINDROP__AUTH__TOKENS_FILE in .env): must be the path of a \
          file, or unset"
        ]
    );
}
