/* A callout under a mutex. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/lock.h>
#include <sys/mutex.h>
#include <sys/callout.h>

static struct mtx lock;
static struct callout ticker;

static void
on_tick(void *arg __unused)
{
	callout_reset(&ticker, hz, on_tick, NULL);
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		mtx_init(&lock, "c_callout", NULL, MTX_DEF);
		callout_init_mtx(&ticker, &lock, 0);
		mtx_lock(&lock);
		callout_reset(&ticker, hz, on_tick, NULL);
		mtx_unlock(&lock);
		return (0);
	case MOD_UNLOAD:
		callout_drain(&ticker);
		mtx_destroy(&lock);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_callout", on_event, NULL };

DECLARE_MODULE(c_callout, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_callout, 1);
