/* A library in C whose functions have arguments of many types. */

#include <stddef.h>

typedef unsigned short port_t;
struct point { int x, y; };

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

	return (unsigned long)named(count, name, 250, 8080, &at) + (unsigned long)sized(count, numbers, -count);
}
