/*
 * The functions of ../probes/src/functions.rs, with their probes, or, without KDTRACE_HOOKS, without them.
 */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/sdt.h>

SDT_PROVIDER_DEFINE(sides);
SDT_PROBE_DEFINE0(sides, , , zero);
SDT_PROBE_DEFINE1(sides, , , one, "uint64_t");
SDT_PROBE_DEFINE2(sides, , , two, "uint64_t", "uint64_t");
SDT_PROBE_DEFINE3(sides, , , three, "uint64_t", "uint64_t", "uint64_t");
SDT_PROBE_DEFINE4(sides, , , four, "uint64_t", "uint64_t", "uint64_t",
    "uint64_t");
SDT_PROBE_DEFINE5(sides, , , five, "uint64_t", "uint64_t", "uint64_t",
    "uint64_t", "uint64_t");
SDT_PROVIDER_DEFINE(sides_of_15);
SDT_PROBE_DEFINE6(sides_of_15, , , six, "uint64_t", "uint64_t", "uint64_t",
    "uint64_t", "uint64_t", "uint64_t");

uint64_t opaque(uint64_t);

/*
 * Some arithmetic, another one for each k: no two functions are merged, and none has constants to share.
 */
static inline uint64_t
mix(uint64_t k, uint64_t x, uint64_t y)
{
	return (((x << (1 + k)) + x) ^ (y >> (7 + k)));
}

#define ARGUMENTS                                                              \
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f

#define FUNCTIONS(n, provider, name, ...)                                      \
	uint64_t leaf_##n(ARGUMENTS);                                          \
	uint64_t leaf_##n(ARGUMENTS)                                           \
	{                                                                      \
		a = mix(n, a, b);                                              \
		SDT_PROBE##n(provider, , , name, ##__VA_ARGS__);               \
		return (mix(n + 8, a, c ^ d ^ e ^ f));                         \
	}                                                                      \
	uint64_t calls_##n(ARGUMENTS);                                         \
	uint64_t calls_##n(ARGUMENTS)                                          \
	{                                                                      \
		a = opaque(mix(n + 16, a, b));                                 \
		SDT_PROBE##n(provider, , , name, ##__VA_ARGS__);               \
		return (opaque(mix(n + 24, a, c ^ d ^ e ^ f)) ^ b);            \
	}

FUNCTIONS(0, sides, zero)
FUNCTIONS(1, sides, one, a)
FUNCTIONS(2, sides, two, a, b)
FUNCTIONS(3, sides, three, a, b, c)
FUNCTIONS(4, sides, four, a, b, c, d)
FUNCTIONS(5, sides, five, a, b, c, d, e)
FUNCTIONS(6, sides_of_15, six, a, b, c, d, e, f)
