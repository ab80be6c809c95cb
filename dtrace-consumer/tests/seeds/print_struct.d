/* A whole struct, by its type. */
typedef struct packet {
	uint32_t length;
	uint16_t protocol;
	uint8_t flags[2];
	char name[8];
} packet_t;

field:::packet
{
	print(*args[0]);
}
