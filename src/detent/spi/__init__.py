"""The promises on which engine and stores meet: small protocols, with their contracts."""
