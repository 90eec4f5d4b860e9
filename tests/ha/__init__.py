"""The failover trial on real Patroni and etcd; see `make ha`."""
