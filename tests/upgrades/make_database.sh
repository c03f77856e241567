#!/usr/bin/env bash
# Make the database of a release, for the upgrade tests: tests/upgrades/make_database.sh COMMIT NAME [JUDGEMENTS]
# Writes NAME.sqlite.tar.gz; with DATABASE_URL (an empty database) NAME.postgresql.sql.gz.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); commit=$1 name=$2 judgements=${3:-300}
source=$(mktemp -d) CONCORD_DATA=$(mktemp -d); export CONCORD_DATA OMP_NUM_THREADS=1
export ALLOWED_HOSTS=localhost REDIS_URL=redis://127.0.0.1:1/0
(cd "$here/../.." && git archive "$commit") | tar -x -C "$source"
manage() { (cd "$source" && "$here/../../.venv/bin/python" manage.py "$@"); }
manage migrate --verbosity 0
CONCORD_OWNER_PASSWORD=correct-horse-battery manage create_owner olga >/dev/null
manage create_project pets Pets --owner olga >/dev/null
{ echo "key,text,group"; for n in $(seq 14); do echo "item-$n,Argument number $n.,one"; done; } >"$CONCORD_DATA/items.csv"
manage import_items pets "$CONCORD_DATA/items.csv" >/dev/null
manage change_project pets --set redundancy=50 --set judgements_per_worker=60 --state open >/dev/null
manage simulate_crowd pets --judgements "$judgements" --workers $((judgements / 25 + 1)) --yes-really >/dev/null
manage update_models --once >/dev/null
manage verify
if [ -n "${DATABASE_URL:-}" ]; then
  pg_dump --no-owner "$DATABASE_URL" | gzip -9 >"$here/$name.postgresql.sql.gz"
else
  "$here/../../.venv/bin/python" -c 'import sqlite3, sys; print("\n".join(sqlite3.connect(sys.argv[1]).iterdump()))' \
    "$CONCORD_DATA/concord.sqlite3" >"$CONCORD_DATA/concord.sql"
  tar -C "$CONCORD_DATA" -czf "$here/$name.sqlite.tar.gz" concord.sql snapshots
fi
rm -rf "$source" "$CONCORD_DATA"
