/* A queue of tasks with a thread of its own. */
#include <sys/param.h>
#include <sys/systm.h>
#include <sys/kernel.h>
#include <sys/module.h>
#include <sys/malloc.h>
#include <sys/taskqueue.h>

static struct taskqueue *queue;
static struct task task;

static void
on_task(void *arg __unused, int pending)
{
	printf("%d\n", pending);
}

static int
on_event(module_t module __unused, int event, void *arg __unused)
{
	switch (event) {
	case MOD_LOAD:
		queue = taskqueue_create("c_taskqueue", M_WAITOK, taskqueue_thread_enqueue, &queue);
		taskqueue_start_threads(&queue, 1, PWAIT, "c_taskqueue");
		TASK_INIT(&task, 0, on_task, NULL);
		taskqueue_enqueue(queue, &task);
		return (0);
	case MOD_UNLOAD:
		taskqueue_drain(queue, &task);
		taskqueue_free(queue);
		return (0);
	default:
		return (EOPNOTSUPP);
	}
}

static moduledata_t data = { "c_taskqueue", on_event, NULL };

DECLARE_MODULE(c_taskqueue, data, SI_SUB_DRIVERS, SI_ORDER_MIDDLE);
MODULE_VERSION(c_taskqueue, 1);
