// lib.rs includes this file twice, after functions.rs. These are kinds of functions whose frames a compiler would not set up at
// their entry, unless options forbid it.

macro_rules! kind {
    ($name:literal ($($arg:ident: $type:ty),*) $body:block) => {
        const _: () = {
            #[unsafe(export_name = symbol!($name))]
            extern "C" fn kind($($arg: $type),*) -> u64 $body
        };
    };
}

kind!("kind_leaf" (a: u64, b: u64) {
    let a = mix::<1>(a, b);
    probe!(kinds::leaf, a);
    mix::<2>(a, b)
});

kind!("kind_first" (a: u64, b: u64) {
    probe!(kinds::first);
    mix::<3>(a, b)
});

kind!("kind_tail_call" (a: u64, b: u64) {
    probe!(kinds::tail_call, a, b);
    opaque(mix::<4>(a, b))
});

kind!("kind_behind_return" (a: u64, b: u64) {
    if a < 50 {
        return mix::<5>(b, a);
    }
    probe!(kinds::behind_return, a);
    mix::<6>(a, b)
});

kind!("kind_before_return" (a: u64, b: u64) {
    probe!(kinds::before_return, b);
    if a < 50 {
        return b;
    }
    opaque(mix::<7>(a, b)) ^ a
});

kind!("kind_call_before" (a: u64, b: u64) {
    let a = opaque(mix::<8>(a, b));
    probe!(kinds::call_before, a);
    mix::<9>(a, b)
});

kind!("kind_call_behind_return" (a: u64, b: u64) {
    if b == 0 {
        return a;
    }
    probe!(kinds::call_behind_return, a, b);
    opaque(mix::<10>(a, b)) ^ b
});

kind!("kind_loop" (values: &[u64; 64], n: u64) {
    let mut sum = n;
    for value in values {
        sum = mix::<11>(sum, *value);
        probe!(kinds::looping, sum);
    }
    sum
});

kind!("kind_loop_of_calls" (a: u64, n: u64) {
    let mut sum = a;
    for i in 0..n {
        probe!(kinds::loop_of_calls, i);
        sum = opaque(sum ^ i);
    }
    sum
});

kind!("kind_two_sites" (a: u64, b: u64) {
    probe!(kinds::entered, a);
    let c = mix::<12>(a, b);
    probe!(kinds::left, c);
    c ^ b
});

kind!("kind_branches" (a: u64, b: u64) {
    match a {
        0 => {
            probe!(kinds::branch, 0);
            mix::<13>(a, b)
        }
        1 => mix::<14>(b, a),
        2 => {
            let b = opaque(b);
            probe!(kinds::branch, b);
            b
        }
        _ => {
            probe!(kinds::branch, a);
            opaque(b)
        }
    }
});

kind!("kind_costly" (a: u64, b: u64) {
    let c = mix::<15>(a, b);
    probe!(kinds::costly, opaque(c), b);
    c ^ a
});

kind!("kind_enabled" (a: u64, b: u64) {
    if enabled!(kinds::enabled) {
        return opaque(a);
    }
    mix::<16>(a, b)
});

kind!("kind_enabled_group" (a: u64, b: u64) {
    if enabled!(kinds::{entered, left, costly}) {
        return opaque(a);
    }
    mix::<17>(a, b)
});

/// A frame of more than 504 bytes: RISC-V's short instructions cannot save registers at the end of such a frame.
const _: () = {
    #[unsafe(export_name = symbol!("kind_large_frame"))]
    extern "C" fn large_frame(a: u64, b: u64) -> u64 {
        if a == 0 {
            return b;
        }
        let mut room = [a; 128];
        hide(&mut room);
        probe!(kinds::large_frame, a);
        room[(b % 128) as usize]
    }
};
