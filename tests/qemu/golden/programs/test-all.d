/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test:: { @[probeprov, probename] = count(); }
