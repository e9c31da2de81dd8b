#!/bin/sh
# Tests the client for Python with Django, SQLAlchemy, gunicorn and Celery, on private servers of PostgreSQL and
# MariaDB and the real service, which RAINDROP can name; and many threads while nodes are killed. Debian's
# packages bring the databases.
set -eu

cd "$(dirname "$0")/../.."
. tests/functions.sh

ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || apt_install postgresql || fail "needs PostgreSQL (Debian: postgresql)"
command -v mariadbd >/dev/null || apt_install mariadb-server || fail "needs mariadbd (Debian: mariadb-server)"
need mariadb mariadb-install-db
need_service
python=$(keep python-client)
tests/python/run.sh "$python" clients/python/requirements.txt

cd clients/python
export PYTHONPATH=src
"$python/bin/python" -B -m unittest discover --start-directory integrations --top-level-directory . --verbose
exec "$python/bin/python" -B -m integrations.load --threads 16 --ids 200000 --seconds 5
