/* A kernel process that sleeps. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/proc.h>
#include <sys/kthread.h>

static struct proc *process;
static volatile int stop;

static void
run(void *arg __unused)
{
	while (!stop)
		tsleep(&process, 0, "c_kproc", hz);
	wakeup(&process);
	kproc_exit(0);
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		return (kproc_create(run, NULL, &process, 0, 0, "c_kproc"));
		return (0);
	case MOD_UNLOAD:
		stop = 1;
		wakeup(&process);
		tsleep(&process, 0, "exit", hz);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_kproc", on_event, NULL };

DECLARE_MODULE(c_kproc, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_kproc, 1);
