/* Probes of an own name, and of the kernel's provider. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/sdt.h>

SDT_PROVIDER_DEFINE(c_probes);
SDT_PROBE_DEFINE2(c_probes, mine, start, here, "int", "char *");
SDT_PROBE_DEFINE0(c_probes, , , gone);
SDT_PROVIDER_DECLARE(sdt);
SDT_PROBE_DEFINE1(sdt, , , c__probes, "int");

static __noinline void
fire(int value)
{
	SDT_PROBE2(c_probes, mine, start, here, value, "text");
	SDT_PROBE1(sdt, , , c__probes, value);
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		fire(1);
		return (0);
	case MOD_UNLOAD:
		SDT_PROBE0(c_probes, , , gone);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_probes", on_event, NULL };

DECLARE_MODULE(c_probes, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_probes, 1);
