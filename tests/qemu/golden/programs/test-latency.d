/* | exec /bin/echo /bin/date /bin/echo */
sdt_test:sdt_test::none { self->started = timestamp; }
sdt_test:sdt_test::translated /self->started/ { @["took time"] = min(timestamp >= self->started); self->started = 0; }
