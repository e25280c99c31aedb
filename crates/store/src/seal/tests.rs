use super::*;

const PLACE: &str = "ten_1/secret/shop/1";

fn opened(sealer: &Sealer, sealed: &[u8]) -> Option<String> {
    sealer.open(PLACE, sealed).ok().map(|value| value.expose_secret().to_owned())
}

#[test]
fn what_is_sealed_opens_in_its_place_alone() {
    let secret = SecretString::from("s3cret");
    for sealer in [Sealer::new(&[7; 32]), Sealer::with_others(&[7; 32], &[&[9; 32]])] {
        let sealed = sealer.seal(PLACE, &secret).expect("sealed");
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(opened(&sealer, &sealed).as_deref(), Some("s3cret"));
        assert!(sealer.open("ten_2/secret/shop/1", &sealed).is_err());
        assert!(Sealer::new(&[8; 32]).open(PLACE, &sealed).is_err());
        assert_ne!(sealer.seal(PLACE, &secret).expect("sealed"), sealed);
        for end in 0..sealed.len() {
            assert!(sealer.open(PLACE, &sealed[..end]).is_err());
            let mut damaged = sealed.clone();
            damaged[end] ^= 1;
            assert!(sealer.open(PLACE, &damaged).is_err(), "byte {end} was changed");
        }
    }
}

#[test]
fn a_server_with_one_key_writes_what_every_version_reads() {
    let secret = SecretString::from("s3cret");
    assert_eq!(Sealer::new(&[7; 32]).seal(PLACE, &secret).expect("sealed")[0], 1);
    assert_eq!(Sealer::with_others(&[7; 32], &[&[7; 32]]).seal(PLACE, &secret).expect("sealed")[0], 1);
    let both = Sealer::with_others(&[7; 32], &[&[9; 32]]);
    let sealed = both.seal(PLACE, &secret).expect("sealed");
    assert_eq!((sealed[0], named_key(&sealed)), (2, Some(both.key_id())));
    assert_eq!(
        opened(&Sealer::new(&[7; 32]), &sealed).as_deref(),
        Some("s3cret"),
        "the other key isn't needed"
    );
}

/// The form that was written before keys had ids, as bytes that stand fixed.
#[test]
fn what_was_sealed_long_ago_opens() {
    let sealed: Vec<u8> =
        (0..OLD.len()).step_by(2).map(|at| u8::from_str_radix(&OLD[at..at + 2], 16).expect("hex")).collect();
    for sealer in [Sealer::new(&[7; 32]), Sealer::with_others(&[9; 32], &[&[8; 32], &[7; 32]])] {
        assert_eq!(opened(&sealer, &sealed).as_deref(), Some("s3cret"));
    }
}

#[test]
fn every_configured_key_opens_and_the_first_one_wraps_anew() {
    let secret = SecretString::from("s3cret");
    let (old, new) = (Sealer::new(&[7; 32]), Sealer::new(&[9; 32]));
    let both = Sealer::with_others(&[9; 32], &[&[7; 32]]);
    assert_eq!(both.key_id(), new.key_id());
    assert!(both.knows(old.key_id()) && !new.knows(old.key_id()));
    for sealed in [old.seal(PLACE, &secret), Sealer::with_others(&[7; 32], &[&[9; 32]]).seal(PLACE, &secret)]
    {
        let sealed = sealed.expect("sealed");
        assert_eq!(both.wrapped_by(PLACE, &sealed), Ok(old.key_id()));
        let anew = both.rewrap(PLACE, &sealed).expect("opens").expect("it was the old key's");
        assert_eq!(opened(&new, &anew).as_deref(), Some("s3cret"));
        assert_eq!(opened(&old, &anew), None);
        assert_eq!(anew[anew.len() - 22..], sealed[sealed.len() - 22..], "the value itself stays as it is");
        assert_eq!(both.rewrap(PLACE, &anew), Ok(None), "once is enough");
        assert_eq!(new.rewrap(PLACE, &sealed), Err(SealError));
        assert_eq!(both.rewrap("ten_2/secret/shop/1", &sealed), Err(SealError));
    }
}

/// `s3cret`, sealed for [`PLACE`] with 32 sevens.
const OLD: &str = "01000102030405060708090a0b6465666768696a6b6c6d6e6f1880eb73190cdf4e7fbbef97ee5562f5f12da49d0c7761260e\
    d779a192ca731a09cf87ce81400f7d7725eb8dafa329aa3b28bd141c9d6f21dbbd510ead2735c2b894cad9a6ce";
