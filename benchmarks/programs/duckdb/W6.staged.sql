-- The hierarchies are small and closed first; then one pass over the data is enough, unless a word of
-- the vocabulary is itself described by the ontology: then passes are repeated until nothing is new.
CREATE TEMP TABLE triple AS FROM triples('triple.tsv');
CREATE TEMP TABLE vocabulary AS
    FROM (VALUES ('rdf:type'), ('rdfs:subClassOf'), ('rdfs:subPropertyOf'), ('rdfs:domain'), ('rdfs:range')) AS v(x);

-- repeat
SET VARIABLE before = (SELECT count(*) FROM triple);

CREATE OR REPLACE TEMP TABLE schema_triple AS FROM triple WHERE starts_with(y, 'rdfs:');
CREATE OR REPLACE TEMP TABLE subclass AS
    WITH RECURSIVE step AS MATERIALIZED (SELECT x, z FROM schema_triple WHERE y = 'rdfs:subClassOf'),
    closed(x, z) AS (FROM step UNION SELECT closed.x, step.z FROM closed JOIN step ON closed.z = step.x)
    FROM closed;
CREATE OR REPLACE TEMP TABLE subproperty AS
    WITH RECURSIVE step AS MATERIALIZED (SELECT x, z FROM schema_triple WHERE y = 'rdfs:subPropertyOf'),
    closed(x, z) AS (FROM step UNION SELECT closed.x, step.z FROM closed JOIN step ON closed.z = step.x)
    FROM closed;
CREATE OR REPLACE TEMP TABLE property_domain AS SELECT x, z FROM schema_triple WHERE y = 'rdfs:domain';
CREATE OR REPLACE TEMP TABLE property_range AS SELECT x, z FROM schema_triple WHERE y = 'rdfs:range';

INSERT INTO triple
    SELECT DISTINCT triple.x, subproperty.z AS y, triple.z
    FROM triple JOIN subproperty ON triple.y = subproperty.x
    ANTI JOIN (FROM triple WHERE y IN (SELECT z FROM subproperty)) AS known
    ON known.x = triple.x AND known.y = subproperty.z AND known.z = triple.z;

CREATE OR REPLACE TEMP TABLE typed AS
    WITH direct AS MATERIALIZED (
        SELECT x, z FROM triple WHERE y = 'rdf:type'
        UNION SELECT triple.x, d.z FROM triple JOIN property_domain AS d ON triple.y = d.x
        UNION SELECT triple.z, r.z FROM triple JOIN property_range AS r ON triple.y = r.x
    )
    FROM direct UNION SELECT direct.x, subclass.z FROM direct JOIN subclass ON direct.z = subclass.x;

INSERT INTO triple
    SELECT x, 'rdf:type', z FROM typed
    ANTI JOIN (SELECT x, z FROM triple WHERE y = 'rdf:type') AS known USING (x, z);
INSERT INTO triple
    SELECT x, 'rdfs:subClassOf', z FROM subclass
    ANTI JOIN (SELECT x, z FROM schema_triple WHERE y = 'rdfs:subClassOf') AS known USING (x, z);
INSERT INTO triple
    SELECT x, 'rdfs:subPropertyOf', z FROM subproperty
    ANTI JOIN (SELECT x, z FROM schema_triple WHERE y = 'rdfs:subPropertyOf') AS known USING (x, z);

SELECT
    count(*) AS tuples,
    count(*) > getvariable('before') AND EXISTS (
        FROM (
            SELECT x FROM subproperty UNION ALL SELECT z FROM subproperty
            UNION ALL SELECT x FROM property_domain UNION ALL SELECT x FROM property_range
        ) SEMI JOIN vocabulary USING (x)
    ) AS again
FROM triple;
