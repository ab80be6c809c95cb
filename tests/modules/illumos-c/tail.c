/*
 * A probe in tail position, which a compiler makes a jump: krtld would leave nops there that run into the
 * next function.
 */

#include "module.h"

void __dtrace_probe_at__end(uintptr);

MISC_MODULE("a tail call")

__attribute__((noinline)) void
end(uintptr n)
{
	__dtrace_probe_at__end(n);
}

int
_init(void)
{
	end(1);
	return (mod_install(&linkage));
}

int
_fini(void)
{
	return (mod_remove(&linkage));
}
