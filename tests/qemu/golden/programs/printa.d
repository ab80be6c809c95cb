/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @runs[stringof(arg0)] = count(); }
END { printa("%-20s|%@8d\n", @runs); }
