"""Candidate plans of random join queries, as PostgreSQL explains them.

    python plans.py --host /tmp --port 5432 --queries 40 > plans.jsonl

Needs `psql` and a server where the user may create a database. Makes a database `edbatch_plans`
with eight tables of generated rows. A line of the output is a query:

    {"query": sql, "plans": [[node, …], …], "nodes": all, "distinct": n}

A node is {"op", "children": numbers of earlier nodes of the plan, "rows", "width", "cost",
"share"}; `share` is equal for equal subplans of the query (same operator, relation, conditions,
estimates and children). A server for it, as a user that is not root:

    initdb -D data -A trust -U postgres && pg_ctl -D data -o '-k /tmp' -w start
"""

import argparse
import json
import random
import subprocess
import sys

TABLES = {"a": 200000, "b": 80000, "c": 40000, "d": 20000, "e": 8000, "f": 3000, "g": 800, "h": 100}
SWITCHES = [
    "hashjoin",
    "mergejoin",
    "nestloop",
    "indexscan",
    "bitmapscan",
    "seqscan",
    "hashagg",
    "sort",
    "memoize",
    "material",
]
LIMITS = ["join", "from"]


def psql(options, sql, database="edbatch_plans"):
    command = [
        "psql",
        "-h",
        options.host,
        "-p",
        str(options.port),
        "-U",
        options.user,
        "-d",
        database,
        "-qAtX",
        "-v",
        "ON_ERROR_STOP=1",
    ]
    done = subprocess.run(command, input=sql, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def create(options):
    if psql(
        options, "select 1 from pg_database where datname = 'edbatch_plans'", "postgres"
    ).strip():
        return
    psql(options, "create database edbatch_plans", "postgres")
    for name, rows in TABLES.items():
        keys = ", ".join(
            f"(random() * {other})::int as {key}" for key, other in TABLES.items() if key != name
        )
        columns = f"i as id, {keys}, (random() * 1000)::int as x, md5(i::text) as t"
        make = f"create table {name} as select {columns} from generate_series(1, {rows}) i"
        indices = f"create index on {name} (id); create index on {name} (x)"
        psql(options, f"select setseed(0.5); {make}; {indices}; analyze {name}")


def query(rng):
    names = rng.sample(list(TABLES), rng.randint(3, 7))
    where = [f"{rng.choice(names[:i])}.{name} = {name}.id" for i, name in enumerate(names) if i]
    where += [f"{name}.x < {rng.randint(5, 900)}" for name in names if rng.random() < 0.6]
    head = rng.choice(["count(*)", f"{names[0]}.x, count(*), max({names[-1]}.x)"])
    tail = f" group by {names[0]}.x order by 2" if "max" in head else ""
    return f"select {head} from {', '.join(names)} where {' and '.join(where)}{tail}"


def flatten(tree, nodes, known):
    children = [flatten(child, nodes, known) for child in tree.get("Plans", [])]
    own = {k: v for k, v in tree.items() if k != "Plans"}
    key = json.dumps([own, [nodes[c]["share"] for c in children]], sort_keys=True)
    share = known.setdefault(key, len(known))
    nodes.append(
        {
            "op": tree["Node Type"],
            "children": children,
            "rows": tree["Plan Rows"],
            "width": tree["Plan Width"],
            "cost": tree["Total Cost"],
            "share": share,
        }
    )
    return len(nodes) - 1


def candidates(options, sql, rng, count):
    """Different plans of a query, by switches of the planner and by join order."""
    found, known = {}, {}
    script = []
    for _ in range(6 * count):
        off = rng.sample(SWITCHES, rng.randint(0, 5))
        workers = rng.choice([0, 0, 2])
        collapse = [f"set {name}_collapse_limit = {rng.choice([1, 8])};" for name in LIMITS]
        script.append(f"reset all; set max_parallel_workers_per_gather = {workers};")
        script += [f"set enable_{name} = off;" for name in off]
        script += [*collapse, f"explain (format json) {sql};"]
    decoder, text = json.JSONDecoder(), psql(options, "\n".join(script))
    at = 0
    while (at := text.find("[", at)) >= 0 and len(found) < count:
        tree, at = decoder.raw_decode(text, at)
        nodes = []
        flatten(tree[0]["Plan"], nodes, known)
        found.setdefault(json.dumps([n["share"] for n in nodes]), nodes)
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="/tmp")
    parser.add_argument("--port", type=int, default=5432)
    parser.add_argument("--user", default="postgres")
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    create(options)
    rng = random.Random(options.seed)
    for _ in range(options.queries):
        sql = query(rng)
        plans = candidates(options, sql, rng, options.plans)
        shares = {node["share"] for plan in plans for node in plan}
        line = {
            "query": sql,
            "plans": plans,
            "nodes": sum(map(len, plans)),
            "distinct": len(shares),
        }
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
