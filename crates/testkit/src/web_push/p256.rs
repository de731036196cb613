//! The curve P-256 (FIPS 186-4 D.1.2.3) as a textbook has it: slow, and not safe against observers of
//! its time. For tests alone.

/// A number below 2^256, least limb first.
type Number = [u64; 4];

/// The prime of the field.
const P: Number = [u64::MAX, 0xffff_ffff, 0, 0xffff_ffff_0000_0001];
/// 2^256 modulo the prime.
const FOLD: Number = [1, 0xffff_ffff_0000_0000, u64::MAX, 0xffff_fffe];
/// The constant of the equation y² = x³ - 3x + b.
const B: Number =
    [0x3bce_3c3e_27d2_604b, 0x651d_06b0_cc53_b0f6, 0xb3eb_bd55_7698_86bc, 0x5ac6_35d8_aa3a_93e7];
/// The base point.
const G: [Number; 2] = [
    [0xf4a1_3945_d898_c296, 0x7703_7d81_2deb_33a0, 0xf8bc_e6e5_63a4_40f2, 0x6b17_d1f2_e12c_4247],
    [0xcbb6_4068_37bf_51f5, 0x2bce_3357_6b31_5ece, 0x8ee7_eb4a_7c0f_9e16, 0x4fe3_42e2_fe1a_7f9b],
];

/// A point in Jacobian coordinates: x = X/Z², y = Y/Z³; Z = 0 is the point at infinity.
#[derive(Clone, Copy)]
struct Point {
    x: Number,
    y: Number,
    z: Number,
}

/// The public key of a private one, as an uncompressed point.
pub(super) fn public(private: &[u8; 32]) -> [u8; 65] {
    let [x, y] = affine(multiply(&number(private), &finite(G))).expect("a private key is not zero");
    let mut point = [4; 65];
    point[1..33].copy_from_slice(&bytes(&x));
    point[33..].copy_from_slice(&bytes(&y));
    point
}

/// The secret that a private key has in common with another public one; `None` if that is no point on
/// the curve.
pub(super) fn shared(private: &[u8; 32], peer: &[u8; 65]) -> Option<[u8; 32]> {
    let (x, y) = (number(peer[1..33].try_into().ok()?), number(peer[33..].try_into().ok()?));
    let right = add(&subtract(&multiply_mod(&square(&x), &x), &triple(&x)), &B);
    if peer[0] != 4 || square(&y) != right {
        return None;
    }
    affine(multiply(&number(private), &finite([x, y]))).map(|[x, _]| bytes(&x))
}

fn number(bytes: &[u8; 32]) -> Number {
    let mut limbs = [0; 4];
    for (limb, chunk) in limbs.iter_mut().zip(bytes.rchunks(8)) {
        *limb = chunk.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    }
    limbs
}

fn bytes(number: &Number) -> [u8; 32] {
    let mut out = [0; 32];
    for (limb, chunk) in number.iter().zip(out.rchunks_mut(8)) {
        chunk.copy_from_slice(&limb.to_be_bytes());
    }
    out
}

fn is_below(a: &Number, b: &Number) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

/// The sum, and whether it overflows.
fn sum(a: &Number, b: &Number) -> (Number, bool) {
    let (mut out, mut carry) = ([0; 4], false);
    for at in 0..4 {
        let (partial, first) = a[at].overflowing_add(b[at]);
        let (full, second) = partial.overflowing_add(u64::from(carry));
        (out[at], carry) = (full, first || second);
    }
    (out, carry)
}

/// a - b modulo 2^256.
fn difference(a: &Number, b: &Number) -> Number {
    let (mut out, mut borrow) = ([0; 4], false);
    for at in 0..4 {
        let (partial, first) = a[at].overflowing_sub(b[at]);
        let (full, second) = partial.overflowing_sub(u64::from(borrow));
        (out[at], borrow) = (full, first || second);
    }
    out
}

fn add(a: &Number, b: &Number) -> Number {
    let (sum, overflows) = sum(a, b);
    if overflows || !is_below(&sum, &P) { difference(&sum, &P) } else { sum }
}

fn subtract(a: &Number, b: &Number) -> Number {
    if is_below(a, b) { difference(&sum(a, &P).0, b) } else { difference(a, b) }
}

fn triple(a: &Number) -> Number {
    add(&add(a, a), a)
}

fn square(a: &Number) -> Number {
    multiply_mod(a, a)
}

fn multiply_mod(a: &Number, b: &Number) -> Number {
    let mut wide = product(a, b);
    // What is above 2^256 is folded down until nothing is.
    while wide[4..] != [0; 4] {
        let (low, high) = wide.split_at(4);
        let low: Number = low.try_into().expect("four limbs");
        let high: Number = high.try_into().expect("four limbs");
        let mut folded = product(&high, &FOLD);
        let mut carry = 0;
        for (at, limb) in folded.iter_mut().enumerate() {
            let total = u128::from(*limb) + u128::from(*low.get(at).unwrap_or(&0)) + carry;
            (*limb, carry) = (total as u64, total >> 64);
        }
        wide = folded;
    }
    let low: Number = wide[..4].try_into().expect("four limbs");
    if is_below(&low, &P) { low } else { difference(&low, &P) }
}

fn product(a: &Number, b: &Number) -> [u64; 8] {
    let mut out = [0; 8];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, y) in b.iter().enumerate() {
            let total = u128::from(*x) * u128::from(*y) + u128::from(out[i + j]) + carry;
            (out[i + j], carry) = (total as u64, total >> 64);
        }
        out[i + 4] = carry as u64;
    }
    out
}

/// 1/a, which is a to the power of p - 2.
fn inverse(a: &Number) -> Number {
    let exponent = difference(&P, &[2, 0, 0, 0]);
    bits(&exponent).fold([1, 0, 0, 0], |power, bit| {
        let squared = square(&power);
        if bit { multiply_mod(&squared, a) } else { squared }
    })
}

/// Highest first.
fn bits(number: &Number) -> impl Iterator<Item = bool> {
    (0..256).rev().map(move |bit| number[bit / 64] >> (bit % 64) & 1 == 1)
}

fn finite([x, y]: [Number; 2]) -> Point {
    Point { x, y, z: [1, 0, 0, 0] }
}

fn affine(point: Point) -> Option<[Number; 2]> {
    if point.z == [0; 4] {
        return None;
    }
    let once = inverse(&point.z);
    let twice = square(&once);
    let x = multiply_mod(&point.x, &twice);
    Some([x, multiply_mod(&point.y, &multiply_mod(&twice, &once))])
}

fn multiply(scalar: &Number, point: &Point) -> Point {
    let infinity = Point { x: [1, 0, 0, 0], y: [1, 0, 0, 0], z: [0; 4] };
    bits(scalar).fold(infinity, |sum, bit| {
        let doubled = double(&sum);
        if bit { add_points(&doubled, point) } else { doubled }
    })
}

fn double(point: &Point) -> Point {
    let Point { x, y, z } = point;
    let (z2, y2) = (square(z), square(y));
    let beta = multiply_mod(x, &y2);
    let alpha = triple(&multiply_mod(&subtract(x, &z2), &add(x, &z2)));
    let beta4 = add(&add(&beta, &beta), &add(&beta, &beta));
    let x3 = subtract(&square(&alpha), &add(&beta4, &beta4));
    let z3 = subtract(&subtract(&square(&add(y, z)), &y2), &z2);
    let y4 = square(&y2);
    let y4 = add(&add(&y4, &y4), &add(&y4, &y4));
    let y3 = subtract(&multiply_mod(&alpha, &subtract(&beta4, &x3)), &add(&y4, &y4));
    Point { x: x3, y: y3, z: z3 }
}

fn add_points(a: &Point, b: &Point) -> Point {
    if a.z == [0; 4] {
        return *b;
    }
    let (za2, zb2) = (square(&a.z), square(&b.z));
    let (u1, u2) = (multiply_mod(&a.x, &zb2), multiply_mod(&b.x, &za2));
    let s1 = multiply_mod(&a.y, &multiply_mod(&b.z, &zb2));
    let s2 = multiply_mod(&b.y, &multiply_mod(&a.z, &za2));
    if u1 == u2 && s1 == s2 {
        return double(a);
    }
    // Opposite points give z = 0 below, which is infinity.
    let (h, r) = (subtract(&u2, &u1), subtract(&s2, &s1));
    let h2 = square(&h);
    let (h3, v) = (multiply_mod(&h, &h2), multiply_mod(&u1, &h2));
    let x = subtract(&subtract(&square(&r), &h3), &add(&v, &v));
    let y = subtract(&multiply_mod(&r, &subtract(&v, &x)), &multiply_mod(&s1, &h3));
    Point { x, y, z: multiply_mod(&h, &multiply_mod(&a.z, &b.z)) }
}
