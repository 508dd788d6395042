//! Arithmetic of single elements of GF(2^8): for constants, not for bulk data.

const POLYNOMIAL: u16 = 0x11d;

/// The product of two elements.
pub const fn multiply(a: u8, b: u8) -> u8 {
    let (mut product, mut shifted, mut rest) = (0u8, a, b);
    while rest != 0 {
        if rest & 1 == 1 {
            product ^= shifted;
        }
        shifted = double(shifted);
        rest >>= 1;
    }
    product
}

/// The product with the generator 2.
pub(crate) const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL as u8 } else { 0 }
}

/// The generator 2, `exponent` times multiplied with itself. Its order is 255.
pub const fn power(exponent: usize) -> u8 {
    let (mut result, mut left) = (1u8, exponent % 255);
    while left > 0 {
        result = double(result);
        left -= 1;
    }
    result
}

/// The element whose product with `a` is 1. Panics for zero, which has none.
pub const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    // a^255 = 1 for every element but zero, so a^254 is the inverse.
    let (mut result, mut count) = (1u8, 0);
    while count < 254 {
        result = multiply(result, a);
        count += 1;
    }
    result
}

/// What the low half bytes 0..15, and the high half bytes, become when multiplied with `factor`.
pub(crate) const fn half_byte_products(factor: u8) -> ([u8; 16], [u8; 16]) {
    let (mut low, mut high, mut index) = ([0; 16], [0; 16], 0);
    while index < 16 {
        low[index] = multiply(factor, index as u8);
        high[index] = multiply(factor, (index as u8) << 4);
        index += 1;
    }
    (low, high)
}
