# One image for Airflow and Spark, with the same wheel in both: driver and executors must have the same Python and PySpark.
FROM python:3.12-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 50000 winnow

ENV VIRTUAL_ENV=/opt/winnow PATH=/opt/winnow/bin:$PATH PYSPARK_PYTHON=/opt/winnow/bin/python \
    WINNOW_HOME=/var/lib/winnow AIRFLOW_HOME=/var/lib/winnow/airflow

COPY . /src
RUN python -m venv /opt/winnow \
 && pip install --no-cache-dir uv==0.13.9 \
 && uv pip install --no-cache --require-hashes -r /src/requirements.lock \
 && uv pip install --no-cache --no-deps --no-build-isolation /src \
 && python -c "from winnow.java import check_spark_install; check_spark_install()" \
 && rm -rf /src \
 && mkdir -p /var/lib/winnow && chown winnow /var/lib/winnow

USER winnow
WORKDIR /var/lib/winnow
ENTRYPOINT ["tini", "--"]
CMD ["winnow", "--help"]
