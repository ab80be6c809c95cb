/*
 * A provider of the module's own: registered with DTrace, patching nothing, calling dtrace_probe on every
 * exec while its probe is enabled. It pauses the other CPUs when that changes, as one that patches does.
 */

#include "module.h"

#define SYS_EXECVE 59
#define DTRACE_PRIV_KERNEL 1
#define DTRACE_PRIV_USER 2
#define DTRACE_IDNONE 0

struct sysent {
	char narg;
	unsigned short flags;
	int (*call)();
	void *lock;
	long (*callc)(const char *, const char **, const char **);
};

typedef unsigned int id;

struct probedesc {
	id id;
	char provider[64], module[64], function[128], name[64];
};

struct argdesc {
	id id;
	int ndx, mapping;
	char native[128], xlate[128];
};

struct pops {
	void (*provide)(void *, const struct probedesc *);
	void (*provide_module)(void *, void *);
	int (*enable)(void *, id, void *);
	void (*disable)(void *, id, void *);
	void (*suspend)(void *, id, void *);
	void (*resume)(void *, id, void *);
	void (*getargdesc)(void *, id, void *, struct argdesc *);
	unsigned long (*getargval)(void *, id, void *, int, int);
	int (*mode)(void *, id, void *);
	void (*destroy)(void *, id, void *);
};

extern struct sysent sysent[];
extern int cpu_lock;
int dtrace_register(const char *, const unsigned char *, unsigned, void *, const struct pops *, void *,
    uintptr *);
int dtrace_unregister(uintptr);
id dtrace_probe_lookup(uintptr, const char *, const char *, const char *);
id dtrace_probe_create(uintptr, const char *, const char *, const char *, int, void *);
void dtrace_probe(id, uintptr, uintptr, uintptr, uintptr, uintptr);
void pause_cpus(void *, void *);
void start_cpus(void);
int ddi_get_pid(void);
int strcmp(const char *, const char *);
void *memcpy(void *, const void *, size);

DEPENDS_ON("drv/dtrace");
MISC_MODULE("a provider of its own")

static uintptr provider;
static id probe;
static int enabled;
static long (*underlying)(const char *, const char **, const char **);

static void
provide(void *arg, const struct probedesc *desc)
{
	(void) arg;
	/* A description has the name behind a function's name of 128 bytes. */
	if (desc != 0 && desc->name[0] != '\0' && strcmp(desc->name, "exec") != 0)
		return;
	if (dtrace_probe_lookup(provider, "own", "exec_64", "exec") == DTRACE_IDNONE)
		probe = dtrace_probe_create(provider, "own", "exec_64", "exec", 0, 0);
}

static int
enable(void *arg, id of, void *parg)
{
	(void) arg, (void) of, (void) parg;
	pause_cpus(0, 0);
	enabled = 1;
	start_cpus();
	return (0);
}

static void
disable(void *arg, id of, void *parg)
{
	(void) arg, (void) of, (void) parg;
	pause_cpus(0, 0);
	enabled = 0;
	start_cpus();
}

static void
getargdesc(void *arg, id of, void *parg, struct argdesc *desc)
{
	(void) arg, (void) of, (void) parg;
	if (desc->ndx == 0)
		memcpy(desc->native, "pid_t", 6);
	else
		desc->ndx = -1;
}

static void
destroy(void *arg, id of, void *parg)
{
	(void) arg, (void) of, (void) parg;
	probe = DTRACE_IDNONE;
}

static const struct pops good = {
	.provide = provide, .enable = enable, .disable = disable, .getargdesc = getargdesc,
	.destroy = destroy,
};

/* Evolving, Evolving, ISA for everything. */
static unsigned char attributes[15] = { 5, 5, 4, 5, 5, 4, 5, 5, 4, 5, 5, 4, 5, 5, 4 };

static long
exec_64(const char *path, const char **argv, const char **envp)
{
	if (*(volatile int *)&enabled)
		dtrace_probe(probe, ddi_get_pid(), 2, 3, 4, 5);
	return (underlying(path, argv, envp));
}

/* Registrations that are refused, each for one reason. */
static int
refused(void)
{
	struct pops none = good;
	unsigned char unknown[15] = { 0 };
	int count = 0;

	count += dtrace_register("9own", attributes, DTRACE_PRIV_KERNEL, 0, &good, 0, &provider) == 22;
	none.destroy = 0;
	count += dtrace_register("own", attributes, DTRACE_PRIV_KERNEL, 0, &none, 0, &provider) == 22;
	unknown[2] = 6;
	count += dtrace_register("own", unknown, DTRACE_PRIV_KERNEL, 0, &good, 0, &provider) == 22;
	count += dtrace_register("own", attributes, 0x20, 0, &good, 0, &provider) == 22;
	count += dtrace_register("own", attributes, DTRACE_PRIV_KERNEL | DTRACE_PRIV_USER, 0, &good, 0,
	    &provider) == 22;
	count += dtrace_register("own", 0, DTRACE_PRIV_KERNEL, 0, &good, 0, &provider) == 22;
	return (count);
}

int
_init(void)
{
	int error;

	if (refused() != 6)
		return (EBUSY);
	error = dtrace_register("own", attributes, DTRACE_PRIV_KERNEL, 0, &good, 0, &provider);
	if (error != 0)
		return (error);
	underlying = sysent[SYS_EXECVE].callc;
	sysent[SYS_EXECVE].callc = exec_64;
	return (mod_install(&linkage));
}

int
_fini(void)
{
	int error = dtrace_unregister(provider);

	if (error != 0)
		return (error);
	sysent[SYS_EXECVE].callc = underlying;
	return (mod_remove(&linkage));
}
