// main.rs includes this file twice: once `probe!` and `when_enabled!` expand to nothing, once to a site.

#[inline(never)]
pub fn leaf_0(x: u64, y: u64) -> u64 {
    let z = mix::<1>(x, y);
    probe!(open::leaf_0);
    z ^ mix::<2>(z, x)
}

#[inline(never)]
pub fn leaf_1(x: u64, y: u64) -> u64 {
    let z = mix::<3>(x, y);
    probe!(open::leaf_1, z);
    z ^ mix::<4>(z, x)
}

#[inline(never)]
pub fn leaf_2(x: u64, y: u64) -> u64 {
    let z = mix::<5>(x, y);
    probe!(open::leaf_2, x, z);
    z ^ mix::<6>(z, x)
}

#[inline(never)]
pub fn leaf_6(a: u64, b: u64, e: u64, c: u32, d: i16, f: bool) -> u64 {
    let z = mix::<7>(mix::<8>(a, b), e);
    probe!(open::leaf_6, a, z, c, d, e, f);
    z ^ mix::<9>(z, a)
}

/// Arguments that are not alive on the hot path: loads and arithmetic move to the cold block.
#[inline(never)]
pub fn leaf_computed(counter: &Counter, y: u64) -> u64 {
    let z = mix::<11>(counter.hits, y);
    probe!(open::leaf_computed, counter.bytes, z + 1);
    z ^ mix::<12>(z, y)
}

#[inline(never)]
pub fn declared_0(x: u64, y: u64) -> u64 {
    let z = mix::<13>(x, y);
    probe!(declared::nothing);
    z ^ mix::<14>(z, x)
}

#[inline(never)]
pub fn declared_2(x: u64, text: &CStr) -> u64 {
    let z = mix::<15>(x, text.as_ptr() as u64);
    probe!(declared::two, z, text);
    z ^ mix::<16>(z, x)
}

#[inline(never)]
pub fn declared_costly(x: u64, y: u64) -> u64 {
    let z = mix::<17>(x, y);
    probe!(declared::one, opaque(z));
    z ^ mix::<18>(z, x)
}

/// Text and slices: two words each.
#[inline(never)]
pub fn leaf_texts(path: &str, data: &[u8], y: u64) -> u64 {
    let z = mix::<101>(path.len() as u64, y ^ data.len() as u64);
    probe!(open::leaf_texts, path, data);
    z ^ mix::<102>(z, y)
}

#[inline(never)]
pub fn declared_texts(path: &str, data: &[u8], y: u64) -> u64 {
    let z = mix::<103>(path.len() as u64, y ^ data.len() as u64);
    probe!(declared::texts, path, data);
    z ^ mix::<104>(z, y)
}

#[inline(never)]
pub fn costly_texts(path: &str, data: &[u8], y: u64) -> u64 {
    let z = mix::<105>(path.len() as u64, y ^ data.len() as u64);
    probe!(declared::texts, path.trim(), data);
    z ^ mix::<106>(z, y)
}

#[inline(never)]
pub fn declared_10(x: u64, y: u64) -> u64 {
    let z = mix::<107>(x, y);
    probe!(declared::ten, x, y, z, x + 1, y + 1, z + 1, x + 2, y + 2, z + 2, 10);
    z ^ mix::<108>(z, x)
}

#[inline(never)]
pub fn declared_numbers(x: u64, y: u64, code: Option<i32>, letter: char) -> u64 {
    let z = mix::<109>(x, y);
    let (side, port) = (Side::of(x), Port(y as u16));
    probe!(declared::numbers, u128::MAX - 5, code, letter, side, port);
    z ^ mix::<110>(z, x)
}

#[inline(never)]
pub fn open_numbers(x: u64, y: u64, code: Option<i32>, letter: char) -> u64 {
    let z = mix::<111>(x, y);
    let (wide, port) = ((x as u128) << 64 | y as u128, Port(y as u16));
    probe!(open::numbers, wide, code, letter, port);
    z ^ mix::<112>(z, x)
}

/// Formats its value, by a function and by a function that looks like a constructor.
#[inline(never)]
pub fn shown(failure: &Failure, x: u64, y: u64) -> u64 {
    let z = mix::<113>(x, y);
    probe!(open::shown, show(failure));
    z ^ mix::<114>(z, y)
}

#[inline(never)]
pub fn serialised(header: &Header, x: u64, y: u64) -> u64 {
    let z = mix::<115>(x, y);
    probe!(open::serialised, json(header));
    z ^ mix::<116>(z, y)
}

#[inline(never)]
pub fn declared_said(failure: Failure, header: &Header, y: u64) -> u64 {
    let z = mix::<117>(failure.code, y);
    probe!(declared::said, Shown::new(&{ failure }), Json::new(header));
    z ^ mix::<118>(z, y)
}

#[inline(never)]
pub fn constructed(x: u64, y: u64) -> u64 {
    let z = mix::<119>(x, y);
    probe!(open::constructed, Lazily(z));
    z ^ mix::<120>(z, x)
}

#[inline(never)]
pub fn generic<T: Copy + Into<u64>>(x: T, y: u64) -> u64 {
    let z = mix::<19>(x.into(), y);
    probe!(open::generic, z, y);
    z ^ mix::<20>(z, y)
}

pub fn closure(x: u64) -> impl Fn(u64) -> u64 {
    move |y| {
        let z = mix::<21>(x, y);
        probe!(open::closure, z, y);
        z ^ mix::<22>(z, x)
    }
}

#[inline(never)]
pub fn in_loop(values: &[u64]) -> u64 {
    let mut sum = 0;
    for &value in values {
        sum = mix::<23>(hide(sum), value);
        probe!(open::in_loop, sum, value);
    }
    sum
}

#[inline(never)]
pub fn in_loop_costly(values: &[u64]) -> u64 {
    let mut sum = 0;
    for &value in values {
        sum = mix::<24>(hide(sum), value);
        probe!(open::in_loop_costly, opaque(sum), value);
    }
    sum
}

#[inline(never)]
pub fn branches(x: u64, y: u64) -> u64 {
    if hide(x) > y {
        probe!(open::above, x);
        return mix::<25>(x, y);
    }
    probe!(open::below, x, y);
    mix::<26>(y, x)
}

#[inline(never)]
pub fn calls(x: u64, y: u64) -> u64 {
    let a = opaque(x);
    probe!(open::calls, a, y);
    let b = opaque(a ^ y);
    mix::<27>(a, b) ^ x
}

#[inline(never)]
pub fn calls_costly(x: u64, y: u64) -> u64 {
    let a = opaque(x);
    probe!(open::calls_costly, opaque(y), a);
    let b = opaque(a ^ y);
    mix::<28>(a, b) ^ x
}

#[inline(never)]
pub fn tail_call(x: u64, y: u64) -> u64 {
    probe!(open::tail_call, x, y);
    opaque(mix::<29>(x, y))
}

#[inline(never)]
pub fn costly_u64(x: u64, y: u64) -> u64 {
    let z = mix::<30>(x, y);
    probe!(open::costly_u64, opaque(x), opaque(z));
    z ^ mix::<31>(z, x)
}

#[inline(never)]
pub fn costly_str(text: &str, y: u64) -> u64 {
    let z = mix::<32>(text.len() as u64, y);
    probe!(open::costly_str, hash(text), z);
    z ^ mix::<33>(z, y)
}

#[inline(never)]
pub fn costly_slice(values: &[u64], y: u64) -> u64 {
    let z = mix::<34>(values.len() as u64, y);
    probe!(open::costly_slice, checksum(values), z);
    z ^ mix::<35>(z, y)
}

#[inline(never)]
pub fn costly_mut(counter: &mut Counter, y: u64) -> u64 {
    counter.hits = mix::<36>(counter.hits, y);
    probe!(open::costly_mut, counter.weight());
    counter.bytes ^= mix::<37>(counter.hits, y);
    counter.bytes
}

#[inline(never)]
pub fn costly_pair(x: u64, y: u64) -> u64 {
    let pair = Pair { left: mix::<38>(x, y), right: y };
    probe!(open::costly_pair, pair.total());
    mix::<40>(pair.left, pair.right) ^ x
}

/// A struct of four words that lives in registers.
#[inline(never)]
pub fn costly_struct(x: u64, y: u64) -> u64 {
    let a = mix::<41>(x, y);
    let big = Big { a, b: mix::<42>(a, y), c: x, d: y };
    probe!(open::costly_struct, big.total());
    mix::<43>(mix::<44>(big.b, big.a), big.c)
}

/// A struct of four words that the caller has put into memory.
#[inline(never)]
pub fn costly_struct_argument(big: Big) -> u64 {
    let z = mix::<45>(big.a, big.b);
    probe!(open::costly_struct_argument, big.total(), z);
    z ^ mix::<46>(z ^ big.c, z)
}

/// The site uses one field of the struct, by value.
#[inline(never)]
pub fn costly_field(x: u64, y: u64) -> u64 {
    let a = mix::<47>(x, y);
    let big = Big { a, b: mix::<48>(a, y), c: x, d: y };
    probe!(open::costly_field, opaque(big.c));
    mix::<49>(mix::<50>(big.b, big.a), big.c)
}

/// A struct that cannot be copied, so the site passes its address.
#[inline(never)]
pub fn costly_not_copy(x: u64, y: u64) -> u64 {
    struct Wide([u64; 3]);
    let a = mix::<51>(x, y);
    let wide = Wide([a, mix::<52>(a, y), x]);
    probe!(open::costly_not_copy, checksum(&wide.0));
    mix::<53>(wide.0[1], wide.0[0]) ^ wide.0[2]
}

/// After the call, only the probe uses the values, as with an allocator's size and alignment.
#[inline(never)]
pub fn kept_alive(size: u64, align: u64) -> u64 {
    let made = opaque(size ^ align);
    probe!(open::kept_alive, size, align);
    made.wrapping_mul(3)
}

/// Like [`kept_alive`], but the site passes the addresses of the values.
#[inline(never)]
pub fn kept_in_memory(size: u64, align: u64) -> u64 {
    let made = opaque(size | align);
    probe!(open::kept_in_memory, total(&size), total(&align));
    made.wrapping_mul(5)
}

#[inline(never)]
pub fn costly_closure(values: &[u64], y: u64) -> u64 {
    let z = mix::<54>(values.len() as u64, y);
    probe!(open::costly_closure, values.iter().map(|value| opaque(value ^ y)).sum::<u64>());
    z ^ mix::<55>(z, y)
}

#[inline(never)]
pub fn effect_atomic(x: u64, y: u64) -> u64 {
    let z = mix::<56>(x, y);
    probe!(open::effect_atomic, COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    z ^ mix::<57>(z, x)
}

#[inline(never)]
pub fn effect_call(x: u64, y: u64) -> u64 {
    let z = mix::<58>(x, y);
    probe!(open::effect_call, with_effect(z), with_effect(y));
    z ^ mix::<59>(z, x)
}

#[inline(never)]
pub fn effect_in_block(x: u64, y: u64) -> u64 {
    let z = mix::<60>(x, y);
    probe!(open::effect_in_block, {
        let before = with_effect(z);
        before + opaque(y)
    });
    z ^ mix::<61>(z, x)
}

#[inline(never)]
pub fn enabled_before_tail(x: u64, y: u64) -> u64 {
    when_enabled!(open::enabled_before_tail, COUNTER.store(x, std::sync::atomic::Ordering::SeqCst));
    mix::<62>(x, y)
}

#[inline(never)]
pub fn enabled_among_calls(x: u64, y: u64) -> u64 {
    let a = opaque(x);
    when_enabled!(open::enabled_among_calls, opaque(a));
    let b = opaque(a ^ y);
    mix::<63>(a, b) ^ x
}

#[inline(never)]
pub fn enabled_in_leaf(x: u64, y: u64) -> u64 {
    let z = mix::<64>(x, y);
    when_enabled!(open::enabled_in_leaf, opaque(z));
    z ^ mix::<65>(z, x)
}

#[inline(never)]
pub fn enabled_declared(x: u64, y: u64) -> u64 {
    let a = opaque(x ^ 1);
    when_enabled!(declared::nothing, opaque(y));
    let b = opaque(a ^ y);
    mix::<66>(a, b) ^ x
}

#[inline(never)]
pub fn enabled_of_a_provider(x: u64, y: u64) -> u64 {
    let a = opaque(x ^ 2);
    when_enabled!(declared::*, opaque(y));
    let b = opaque(a ^ y);
    mix::<201>(a, b) ^ x
}

#[inline(never)]
pub fn enabled_of_a_group(x: u64, y: u64) -> u64 {
    let a = opaque(x ^ 3);
    when_enabled!(open::{leaf_0, leaf_1, leaf_2}, opaque(y));
    let b = opaque(a ^ y);
    mix::<202>(a, b) ^ x
}

/// Two sites in one function.
#[inline(never)]
pub fn two_sites(x: u64, y: u64) -> u64 {
    probe!(open::first, x);
    let z = mix::<67>(x, y);
    probe!(open::second, z, opaque(y));
    z ^ mix::<68>(z, x)
}

/// The work after the site does not depend on the work before it. An instruction scheduler can mix the two only if no
/// site is between them.
#[inline(never)]
pub fn independent(x: u64, y: u64) -> u64 {
    let z = mix::<69>(x, y);
    probe!(open::independent, z);
    z ^ mix::<70>(y, x)
}

/// The same expression before and after the site.
#[inline(never)]
pub fn shared_subexpression(x: u64, y: u64) -> u64 {
    let z = (x ^ (x >> 5)).wrapping_add(y << 3);
    probe!(open::shared_subexpression, z);
    (z.wrapping_mul(0x5bd1_e995) ^ x).wrapping_add(y << 3)
}

/// Enough live values to occupy all registers at the site.
#[inline(never)]
pub fn under_pressure(v: &mut [u64; 13]) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m] = v.map(hide);
    probe!(open::under_pressure, a, m);
    *v = [b, c, d, e, f, g, h, i, j, k, l, m, a].map(hide);
}

/// Vector registers, which kernels do not use.
#[inline(never)]
pub fn floats(x: f64, y: f64, n: u64) -> f64 {
    let z = x * y + 1.5;
    probe!(open::floats, n);
    (z / x) * z
}

/// More vectors than the 16 registers before AVX-512, which only this function may use.
#[target_feature(enable = "avx512f")]
#[inline(never)]
pub fn wide(vectors: &mut [__m512d; 24], n: u64) {
    let mut sums = *vectors;
    for _ in 0..n {
        sums = sums.map(|sum| _mm512_add_pd(sum, sum));
        probe!(open::wide, n);
    }
    *vectors = sums;
}

/// Calls every function, with values unknown to the compiler.
pub fn keep() {
    let [x, y] = black_box([1, 2]);
    let big = black_box(Big { a: x, b: y, c: x, d: y });
    let mut counter = black_box(Counter { hits: x, bytes: y });
    let two: [fn(u64, u64) -> u64; 32] = [
        leaf_0,
        leaf_1,
        leaf_2,
        declared_10,
        constructed,
        declared_0,
        declared_costly,
        generic::<u64>,
        branches,
        calls,
        calls_costly,
        tail_call,
        costly_u64,
        costly_pair,
        costly_struct,
        costly_field,
        costly_not_copy,
        kept_alive,
        kept_in_memory,
        effect_atomic,
        effect_call,
        effect_in_block,
        enabled_before_tail,
        enabled_among_calls,
        enabled_in_leaf,
        enabled_declared,
        enabled_of_a_provider,
        enabled_of_a_group,
        two_sites,
        independent,
        shared_subexpression,
        |x, y| generic::<u32>(x as u32, y),
    ];
    for function in black_box(two) {
        black_box(function(x, y));
    }
    let closure: &dyn Fn(u64) -> u64 = &closure(x);
    black_box(black_box(closure)(y));
    black_box(leaf_6(x, y, x, x as u32, y as i16, y == 2));
    let (path, data, code) = black_box(("/path", &[1, 2, 3][..], Some(-1)));
    black_box(leaf_texts(path, data, y));
    black_box(declared_texts(path, data, y));
    black_box(costly_texts(path, data, y));
    black_box(declared_numbers(x, y, code, 'x'));
    black_box(open_numbers(x, y, code, 'y'));
    let (failure, header) = black_box((Failure { code: x }, Header { len: y, kind: 3 }));
    black_box(shown(&failure, x, y));
    black_box(serialised(&header, x, y));
    black_box(declared_said(failure, &header, y));
    black_box(floats(x as f64, y as f64, x));
    black_box(leaf_computed(&counter, y));
    black_box(declared_2(x, black_box(c"text")));
    black_box(in_loop(black_box(&[x, y])));
    black_box(in_loop_costly(black_box(&[x, y])));
    black_box(costly_str(black_box("text"), y));
    black_box(costly_slice(black_box(&[x, y]), y));
    black_box(costly_closure(black_box(&[x, y]), y));
    black_box(costly_mut(&mut counter, y));
    black_box(costly_struct_argument(big));
    under_pressure(black_box(&mut [x; 13]));
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: there is AVX-512.
        unsafe { wide(&mut [_mm512_set1_pd(x as f64); 24], y) };
    }
}
