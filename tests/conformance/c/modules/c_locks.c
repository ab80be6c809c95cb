/* Locks that sleep and such that do not. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/lock.h>
#include <sys/sx.h>
#include <sys/rwlock.h>
#include <sys/rmlock.h>
#include <sys/mutex.h>
#include <sys/condvar.h>
#include <sys/sema.h>

static struct sx shared;
static struct rwlock readers;
static struct mtx spin;
static struct cv condition;
static struct sema semaphore;

SX_SYSINIT(early, &shared, "early");

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		rw_init(&readers, "readers");
		mtx_init(&spin, "spin", NULL, MTX_SPIN);
		cv_init(&condition, "condition");
		sema_init(&semaphore, 1, "semaphore");
		sx_xlock(&shared);
		rw_rlock(&readers);
		mtx_lock_spin(&spin);
		mtx_unlock_spin(&spin);
		rw_runlock(&readers);
		sx_xunlock(&shared);
		sema_wait(&semaphore);
		cv_broadcast(&condition);
		return (0);
	case MOD_UNLOAD:
		sema_destroy(&semaphore);
		cv_destroy(&condition);
		mtx_destroy(&spin);
		rw_destroy(&readers);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_locks", on_event, NULL };

DECLARE_MODULE(c_locks, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_locks, 1);
