// lib.rs includes this file twice: once `probe!` expands to nothing, once to a site. ../../c/functions.c has the same functions.

unsafe extern "C" {
    safe fn opaque(x: u64) -> u64;
}

/// Some arithmetic, different for each `K`, so that functions are not merged and do not share constants.
#[inline(always)]
fn mix<const K: u64>(x: u64, y: u64) -> u64 {
    (x << (1 + K)).wrapping_add(x) ^ (y >> (7 + K))
}

macro_rules! functions {
    (
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident)
        $($(#[$attr:meta])* $k:literal $leaf:literal $calls:literal $provider:ident::$probe:ident($($arg:ident),*);)*
    ) => {$(
        $(#[$attr])*
        const _: () = {
            #[unsafe(export_name = symbol!($leaf))]
            extern "C" fn leaf($a: u64, $b: u64, $c: u64, $d: u64, $e: u64, $f: u64) -> u64 {
                let $a = mix::<$k>($a, $b);
                probe!($provider::$probe $(, $arg)*);
                mix::<{ $k + 8 }>($a, $c ^ $d ^ $e ^ $f)
            }

            #[unsafe(export_name = symbol!($calls))]
            extern "C" fn calls($a: u64, $b: u64, $c: u64, $d: u64, $e: u64, $f: u64) -> u64 {
                let $a = opaque(mix::<{ $k + 16 }>($a, $b));
                probe!($provider::$probe $(, $arg)*);
                opaque(mix::<{ $k + 24 }>($a, $c ^ $d ^ $e ^ $f)) ^ $b
            }
        };
    )*};
}

functions! {
    (a b c d e f)
    0 "leaf_0" "calls_0" sides::zero();
    1 "leaf_1" "calls_1" sides::one(a);
    2 "leaf_2" "calls_2" sides::two(a, b);
    3 "leaf_3" "calls_3" sides::three(a, b, c);
    4 "leaf_4" "calls_4" sides::four(a, b, c, d);
    5 "leaf_5" "calls_5" sides::five(a, b, c, d, e);
    #[cfg(feature = "six")]
    6 "leaf_6" "calls_6" sides_of_15::six(a, b, c, d, e, f);
}
