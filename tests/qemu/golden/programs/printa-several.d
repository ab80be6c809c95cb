/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @a[basename(stringof(arg0))] = count(); @b[basename(stringof(arg0))] = sum(strlen(stringof(arg0))); }
END { printa("%10s %@d %@d\n", @a, @b); }
