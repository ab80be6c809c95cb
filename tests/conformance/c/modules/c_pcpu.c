/* Variables of each CPU, and counters. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/malloc.h>
#include <sys/pcpu.h>
#include <sys/counter.h>
#include <sys/smp.h>

DPCPU_DEFINE_STATIC(int, hits);
static counter_u64_t counter;

static void
on_cpu(void *arg __unused)
{
	DPCPU_SET(hits, DPCPU_GET(hits) + 1);
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		counter = counter_u64_alloc(M_WAITOK);
		counter_u64_add(counter, 1);
		smp_rendezvous(NULL, on_cpu, NULL, NULL);
		return (0);
	case MOD_UNLOAD:
		counter_u64_free(counter);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_pcpu", on_event, NULL };

DECLARE_MODULE(c_pcpu, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_pcpu, 1);
