/*
 * Fires proc:::exec-success on every exec, from C: what the example module in Rust is held against.
 *
 * illumos tells no module of an exec. So the system call's entry in sysent is replaced, as illumos's own systrace
 * provider does.
 */

#include "module.h"

#define SYS_EXECVE 59
#define MAXPATHLEN 1024

struct sysent {
	char narg;
	unsigned short flags;
	int (*call)();
	void *lock;
	long (*callc)(const char *, const char **, const char **);
};

extern struct sysent sysent[], sysent32[];
int copyinstr(const char *, char *, size, size *);
void *kmem_alloc(size, int);
void kmem_free(void *, size);
void __dtrace_probe___proc_exec__success(uintptr);

MISC_MODULE("exec-success, in C")

static long (*underlying[2])(const char *, const char **, const char **);
static int inside;

static __attribute__((noinline)) long
exec_wrapper(int table, const char *path, const char **argv, const char **envp)
{
	char *copy = kmem_alloc(MAXPATHLEN, 0);
	long error;

	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	if (copyinstr(path, copy, MAXPATHLEN, 0) != 0)
		copy[0] = '\0';
	error = underlying[table](path, argv, envp);
	if (error == 0)
		__dtrace_probe___proc_exec__success((uintptr)copy);
	kmem_free(copy, MAXPATHLEN);
	__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	return (error);
}

static long
exec_64(const char *path, const char **argv, const char **envp)
{
	return (exec_wrapper(0, path, argv, envp));
}

static long
exec_32(const char *path, const char **argv, const char **envp)
{
	return (exec_wrapper(1, path, argv, envp));
}

int
_init(void)
{
	underlying[0] = sysent[SYS_EXECVE].callc;
	underlying[1] = sysent32[SYS_EXECVE].callc;
	__atomic_store_n(&sysent[SYS_EXECVE].callc, exec_64, __ATOMIC_SEQ_CST);
	__atomic_store_n(&sysent32[SYS_EXECVE].callc, exec_32, __ATOMIC_SEQ_CST);
	return (mod_install(&linkage));
}

int
_fini(void)
{
	if (sysent[SYS_EXECVE].callc != exec_64 || sysent32[SYS_EXECVE].callc != exec_32)
		return (EBUSY);
	__atomic_store_n(&sysent[SYS_EXECVE].callc, underlying[0], __ATOMIC_SEQ_CST);
	__atomic_store_n(&sysent32[SYS_EXECVE].callc, underlying[1], __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) != 0)
		;
	return (mod_remove(&linkage));
}
