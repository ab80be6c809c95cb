/* -q | exec /usr/bin/true */
opte:::ht-run
/args[0]->addrs.tag == ADDR_PAIR_V6 && args[1]->addrs.tag == ADDR_PAIR_V4/
{
	printf("%d %d to %d, %d %d to %d\n", args[0]->proto, args[0]->addrs.v6.src.octets[15],
	    args[0]->addrs.v6.dst.octets[15], args[1]->proto, args[1]->addrs.v4.src[0], args[1]->addrs.v4.dst[3]);
	printf("%d %d\n", args[0]->info[0], args[0]->info[1]);
	printf("%d %d %d\n", sizeof (struct flow_id), sizeof (union addr_pair), sizeof (struct labels_8));
}

xde:::bad-packet
{
	printf("%d %s %s\n", args[3]->len, stringof(args[3]->entries[0]), stringof(args[3]->entries[1]));
}

xde:::mcast-fwd-clear
{
	printf("%s\n", inet_ntoa6((struct in6_addr *)args[0]->octets));
}
