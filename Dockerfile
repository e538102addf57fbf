# One image for Airflow and Spark, with the same wheel in both: driver and executors must have the same Python and PySpark.
# The tag is pinned, not the digest: pin that, too, from the registry that you pull from.
FROM python:3.12.13-slim-bookworm AS wheel

WORKDIR /src
COPY requirements.lock requirements-image.lock pyproject.toml README.md LICENSE ./
RUN python -m venv /opt/winnow \
 && pip install --no-cache-dir uv==0.13.9 \
 && VIRTUAL_ENV=/opt/winnow uv pip install --no-cache --compile-bytecode --require-hashes -r requirements-image.lock
# After the dependencies, so that a change of the code does not install them again.
COPY winnow winnow
COPY jobs jobs
COPY dags dags
COPY plugins plugins
COPY expectations expectations
COPY demo demo
COPY docs/operations.md docs/operations.md
# Where the version comes from without git's tags.
COPY CHANGELOG.md ./
# What builds the wheel is of the other lock, and stays behind.
RUN uv build --no-cache --wheel --build-constraint requirements.lock --require-hashes --python /opt/winnow/bin/python \
      --out-dir /tmp/wheel . \
 && VIRTUAL_ENV=/opt/winnow uv pip install --no-cache --no-deps --compile-bytecode /tmp/wheel/*.whl \
 && ln -s "$(/opt/winnow/bin/python -c 'from winnow.embedded.bundle import bundled; print(bundled("dags").parent)')" \
      /opt/winnow/bundled
COPY --chmod=755 scripts/team_server.py /opt/winnow/bin/team-server


FROM python:3.12.13-slim-bookworm

# Spark 4 needs Java 17, of which this Debian has the whole runtime, the vector module included.
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 50000 winnow

ENV VIRTUAL_ENV=/opt/winnow PATH=/opt/winnow/bin:$PATH PYSPARK_PYTHON=/opt/winnow/bin/python \
    WINNOW_HOME=/var/lib/winnow AIRFLOW_HOME=/var/lib/winnow/airflow TEAM_SERVER_SECRETS=/run/winnow

COPY --from=wheel /opt/winnow /opt/winnow

# Volumes take their owner from the folder in the image that they are mounted on.
RUN mkdir -p /var/lib/winnow/airflow /var/lib/winnow/spill /var/lib/objects \
      /run/winnow/database /run/winnow/objects /run/winnow/spark /run/winnow/airflow \
 && chown -R winnow:winnow /var/lib/winnow /var/lib/objects /run/winnow

USER winnow
WORKDIR /var/lib/winnow

# A mixed Spark, another Java or an Airflow that does not start is found here and not at the first run.
RUN python -c 'from winnow.embedded.java import check_spark_install; check_spark_install()' \
 && java -version 2>&1 | grep -q '"17\.' \
 && java --add-modules=jdk.incubator.vector -version \
 && spark-submit --version \
 && winnow --help > /dev/null \
 && AIRFLOW_HOME=/tmp/airflow airflow version \
 && rm -rf /tmp/airflow

ENTRYPOINT ["tini", "--"]
CMD ["winnow", "--help"]
