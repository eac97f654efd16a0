"""Object stores behind one URI: local folders, buckets and web servers.

Each function that reads or writes a store raises StorageError if the store refuses, and StorageUnreachableError if it
does not answer or fails, also after the client's own retries.
"""
