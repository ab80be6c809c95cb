/* A library in C whose functions have arguments of many types. */

#include <stddef.h>

typedef unsigned short port_t;
struct point { int x, y; };

enum colour { RED, GREEN };
typedef struct { unsigned long serial; } label_t;
struct item {
	char kind;
	unsigned urgent : 3;
	short corners[2][3];
	struct point at;
	const struct item *next;
	label_t *label;
	union { int whole; struct { short low, high; }; };
	struct { char letters[8]; } name;
	enum colour colour;
	struct hidden *hidden;
	double ratio;
};

__attribute__((noinline)) int shown(const struct item *item, struct point **points)
{
	__asm__ volatile("" : : "r"(item), "r"(points) : "memory");
	return item->at.x;
}

__attribute__((noinline)) int named(int count, const char *name, unsigned char flag, port_t port, struct point *at)
{
	__asm__ volatile("" : : "r"(count), "r"(name), "r"(flag), "r"(port), "r"(at) : "memory");
	return -count;
}

__attribute__((noinline)) void *sized(size_t size, const int *numbers, long long difference)
{
	__asm__ volatile("" : : "r"(size), "r"(numbers), "r"(difference) : "memory");
	return NULL;
}

unsigned long drive(void)
{
	volatile int count = 5;
	int numbers[2] = { -6, 7 };
	struct point at = { 1, 2 };
	/* On the stack: a page of constants is in memory only after its first use. */
	char name[] = "somebody";

	label_t label = { 4711 };
	struct item last = { .kind = 'z', .at = { 5, 6 }, .next = NULL };
	struct item item = { 'a', 5, { { 1, 2, 3 }, { 4, 5, -6 } }, { -1, 2 }, &last, &label,
	    { 0x20001 }, { "letters" }, GREEN, NULL, 0.25 };
	struct point *points[1] = { &at };

	count += shown(&item, points) + 1;
	return (unsigned long)named(count, name, 250, 8080, &at) + (unsigned long)sized(count, numbers, -count);
}
