//! The functions of `Noise_NNpsk0_25519_ChaChaPoly_SHA256`: implements the traits of the crate `noise-protocol` with the crate
//! `orion`. They use no vector registers, which belong to the interrupted process.

use noise_protocol::{Cipher, DH, Hash, U8Array};
use orion::hazardous::aead::chacha20poly1305;
use orion::hazardous::ecc::x25519;
use orion::hazardous::hash::sha2::sha256;
use orion::hazardous::mac::poly1305;
use zeroize::Zeroize as _;

/// 32 bytes that are overwritten when they are dropped.
pub(super) struct Secret([u8; 32]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl U8Array for Secret {
    fn new() -> Self {
        Self::new_with(0)
    }

    fn new_with(byte: u8) -> Self {
        Self([byte; 32])
    }

    fn from_slice(bytes: &[u8]) -> Self {
        Self(U8Array::from_slice(bytes))
    }

    fn len() -> usize {
        32
    }

    fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Curve25519's Diffie-Hellman.
pub(super) enum X25519 {}

impl DH for X25519 {
    type Key = Secret;
    type Pubkey = [u8; 32];
    type Output = Secret;

    fn name() -> &'static str {
        "25519"
    }

    fn genkey() -> Secret {
        unreachable!("`HandshakeState::new` receives the ephemeral key")
    }

    fn pubkey(key: &Secret) -> [u8; 32] {
        let key = x25519::PrivateKey::from(key.0);
        // Every private key of 32 bytes has a public key, so the default is not used.
        x25519::PublicKey::try_from(&key)
            .map_or([0; 32], |public| U8Array::from_slice(public.as_ref()))
    }

    /// Refuses points of small order.
    fn dh(key: &Secret, public: &[u8; 32]) -> Result<Secret, ()> {
        let (key, public) = (x25519::PrivateKey::from(key.0), x25519::PublicKey::from(*public));
        let shared = x25519::key_agreement(&key, &public).map_err(drop)?;
        Ok(Secret::from_slice(shared.unprotected_as_ref()))
    }
}

/// ChaCha20 and Poly1305.
pub(super) enum ChaChaPoly {}

const TAG: usize = poly1305::POLY1305_OUTSIZE;

/// Noise's nonce: four zero bytes, and the number of the message.
fn nonce(number: u64) -> chacha20poly1305::Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    chacha20poly1305::Nonce::from(nonce)
}

impl Cipher for ChaChaPoly {
    type Key = Secret;

    fn name() -> &'static str {
        "ChaChaPoly"
    }

    fn encrypt(key: &Secret, number: u64, ad: &[u8], plain: &[u8], out: &mut [u8]) {
        out[..plain.len()].copy_from_slice(plain);
        Self::encrypt_in_place(key, number, ad, out, plain.len());
    }

    fn encrypt_in_place(
        key: &Secret,
        number: u64,
        ad: &[u8],
        in_out: &mut [u8],
        length: usize,
    ) -> usize {
        let key = chacha20poly1305::SecretKey::from(key.0);
        let (plain, rest) = in_out.split_at_mut(length);
        let tag =
            chacha20poly1305::ChaCha20Poly1305::seal_inplace(&key, &nonce(number), Some(ad), plain);
        let tag = tag.expect("a message is shorter than 2^38 bytes");
        rest[..TAG].copy_from_slice(tag.unprotected_as_ref());
        length + TAG
    }

    fn decrypt(
        key: &Secret,
        number: u64,
        ad: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), ()> {
        let key = chacha20poly1305::SecretKey::from(key.0);
        chacha20poly1305::ChaCha20Poly1305::open(&key, &nonce(number), sealed, Some(ad), out)
            .map_err(drop)
    }

    fn decrypt_in_place(
        key: &Secret,
        number: u64,
        ad: &[u8],
        in_out: &mut [u8],
        length: usize,
    ) -> Result<usize, ()> {
        let key = chacha20poly1305::SecretKey::from(key.0);
        let sealed = in_out.get_mut(..length).ok_or(())?;
        let (text, tag) = sealed.split_at_mut(length.checked_sub(TAG).ok_or(())?);
        let tag = chacha20poly1305::Tag::try_from(&*tag).map_err(drop)?;
        chacha20poly1305::ChaCha20Poly1305::open_inplace(
            &key,
            &nonce(number),
            &tag,
            Some(ad),
            text,
        )
        .map_err(drop)?;
        Ok(text.len())
    }
}

/// SHA-256.
#[derive(Default)]
pub(super) struct Sha256(sha256::Sha256);

impl Hash for Sha256 {
    type Block = [u8; 64];
    type Output = Secret;

    fn name() -> &'static str {
        "SHA256"
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data).expect("nothing is added behind the end");
    }

    fn result(&mut self) -> Secret {
        let digest = self.0.finalize().expect("it ends once");
        Secret::from_slice(digest.as_ref())
    }

    fn reset(&mut self) {
        self.0.reset();
    }
}
