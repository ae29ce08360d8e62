"""Compare the providers with the newest published packages of the vendors: `make wire`.

The packages are downloaded through the clients of npm and PyPI and unpacked with limits. Only one program is executed:
it prints the schema of its files. Only names of records and types get into the repository.
"""
