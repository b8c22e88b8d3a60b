//! The bundled tokenizer, which estimates the size of prompts that no provider's own tokenizer has counted.
//!
//! It is that of OpenAI's recent models, `o200k_base`. It is loaded with the first text, so that a gateway that counts
//! nothing does not hold its 25 MiB.

use antwort_protocol::parse::check_cancelled;

/// The encoding, as its crate names it.
const ENCODING: &str = "o200k_base";
/// Longer texts are counted in pieces of this size, as memory for a text without any word boundary grows with its
/// length. A cut through a word may add a few tokens.
const MAX_PIECE_BYTES: usize = 64 << 10;
/// Bytes of text per token, about; for a build without the encoding.
const BYTES_PER_TOKEN: usize = 4;

/// The tokens of a text. Special tokens in it count as the plain text that they are. Long work: it takes up to half a
/// second for a mebibyte, and ends early when it is cancelled.
pub(super) fn count(text: &str) -> usize {
    let Some(encoding) = tiktoken::get_encoding(ENCODING) else { return text.len() / BYTES_PER_TOKEN };
    pieces(text).take_while(|_| check_cancelled().is_ok()).map(|piece| encoding.count(piece)).sum()
}

fn pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at_checked(rest.floor_char_boundary(MAX_PIECE_BYTES))?;
        rest = behind;
        Some(piece).filter(|piece| !piece.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_as_the_encoding_does() {
        for (text, tokens) in [
            ("", 0),
            ("hello world", 2),
            ("The quick brown fox jumps over the lazy dog.", 10),
            ("<|endoftext|>", 7),
        ] {
            assert_eq!(count(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_nothing_of_it_is_lost() {
        let text = "Grüße, 世界! ".repeat(20_000);
        assert_eq!(pieces(&text).collect::<String>(), text);
        assert!(pieces(&text).all(|piece| piece.len() <= MAX_PIECE_BYTES));
        let whole = tiktoken::get_encoding(ENCODING).unwrap().count(&text);
        let cuts = text.len() / MAX_PIECE_BYTES;
        assert!(cuts > 3 && count(&text).abs_diff(whole) <= 4 * cuts, "{} for {whole}", count(&text));
    }

    #[test]
    fn a_text_without_words_takes_no_more_than_a_moment() {
        for text in ["a", " ", "\n", "-", "aB3/", "漢"] {
            let long = text.repeat((1 << 18) / text.len());
            let begun = std::time::Instant::now();
            assert!(count(&long) > 1000);
            assert!(begun.elapsed().as_secs() < 20, "{text:?} took {:?}", begun.elapsed());
        }
    }
}
