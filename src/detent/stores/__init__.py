"""What remembers: one package per database, all of them keeping the promises of `detent.spi`."""
