"""The private client graph over Flower: the secure scalar product between ClientApps.

The server relays sealed messages in four exchanges; see `docs/explanation/privacy.md`. The modules,
each using only those above it:

| module | content |
|---|---|
| `messages` | what server and nodes send each other as Flower's records |
| `keys` | a node's key, and the keys of others that it accepts |
| `node` | the client's side: a query handler, added by `describe_privately` |
| `protocol` | the server's side of one session, without Flower |
| `products` | the products that are known, and those that are missing |
| `graph` | sessions over a Grid: deadlines, attempts, and clients that are left out |
"""
