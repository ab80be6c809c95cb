/*
 * Probes of all sorts, fired on every exec: of several providers, from several sites of one function, with
 * six arguments and with nine.
 */

#include "module.h"

#define SYS_EXECVE 59

struct sysent {
	char narg;
	unsigned short flags;
	int (*call)();
	void *lock;
	long (*callc)(const char *, const char **, const char **);
};

extern struct sysent sysent[];
void __dtrace_probe_foo__bar(uintptr);
void __dtrace_probe___io_start(uintptr, uintptr);
void __dtrace_probe_six__args(uintptr, uintptr, uintptr, uintptr, uintptr, uintptr);
void __dtrace_probe_nine__args(uintptr, uintptr, uintptr, uintptr, uintptr, uintptr, uintptr, uintptr,
    uintptr);
void __dtrace_probe_in__init(void);

MISC_MODULE("many probes")

static long (*underlying)(const char *, const char **, const char **);

__attribute__((noinline)) void
twice(uintptr n)
{
	__dtrace_probe_foo__bar(n);
	__asm__ volatile("" ::: "memory");
	__dtrace_probe_foo__bar(n + 1);
	__asm__ volatile("");
}

__attribute__((noinline)) static void
arguments(uintptr n)
{
	__dtrace_probe___io_start(n, 2);
	__dtrace_probe_six__args(n, 2, 3, 4, 5, 6);
	__dtrace_probe_nine__args(n, 2, 3, 4, 5, 6, 7, 8, 9);
	__asm__ volatile("");
}

static long
exec_64(const char *path, const char **argv, const char **envp)
{
	twice(40);
	arguments(1);
	return (underlying(path, argv, envp));
}

int
_init(void)
{
	__dtrace_probe_in__init();
	underlying = sysent[SYS_EXECVE].callc;
	sysent[SYS_EXECVE].callc = exec_64;
	return (mod_install(&linkage));
}

int
_fini(void)
{
	sysent[SYS_EXECVE].callc = underlying;
	return (mod_remove(&linkage));
}
