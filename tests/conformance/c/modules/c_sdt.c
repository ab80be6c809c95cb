/*
 * What the kernel's own sdt.ko does: a provider's operations, the sets of other files, their unloading; names of its own,
 * the kernel's and dtrace.ko's.
 */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/malloc.h>
#include <sys/linker.h>
#include <sys/eventhandler.h>
#include <sys/pcpu.h>
#include <sys/limits.h>

extern int dtrace_register(const char *, const void *, uint32_t, void *, const void *, void *, uintptr_t *);
extern int dtrace_unregister(uintptr_t);

static eventhandler_tag tags[2];
static uintptr_t provider;
static char *name;

static void provide(void *arg __unused, void *desc __unused) { }
static void enable(void *arg __unused, uint32_t id __unused, void *parg __unused) { }

static void *operations[10] = { provide, NULL, enable, enable };

static int
on_file(linker_file_t file, void *arg __unused)
{
	void **begin, **end;

	return (linker_file_lookup_set(file, "sdt_probes_set", &begin, &end, NULL));
}

static void
on_load(void *arg __unused, struct linker_file *file)
{
	on_file(file, NULL);
}

static void
start(void *arg __unused)
{
	name = strdup("c_sdt", M_TEMP);
	if (dtrace_register(name, operations, 1, NULL, operations, NULL, &provider) != 0)
		return;
	tags[0] = EVENTHANDLER_REGISTER(kld_load, on_load, NULL, EVENTHANDLER_PRI_ANY);
	linker_file_foreach(on_file, NULL);
}

static void
stop(void *arg __unused)
{
	EVENTHANDLER_DEREGISTER(kld_load, tags[0]);
	dtrace_unregister(provider);
	free(name, M_TEMP);
}

SYSINIT(c_sdt_load, SI_SUB_DTRACE_PROVIDER, SI_ORDER_ANY, start, NULL);
SYSUNINIT(c_sdt_unload, SI_SUB_DTRACE_PROVIDER, SI_ORDER_ANY, stop, NULL);

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		return (0);
	case MOD_UNLOAD:
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_sdt", on_event, NULL };

DECLARE_MODULE(c_sdt, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_sdt, 1);
MODULE_DEPEND(c_sdt, dtrace, 1, 1, 1);
