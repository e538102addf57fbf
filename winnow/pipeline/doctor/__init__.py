"""What ``winnow doctor`` looks at: machine, services, Airflow. Each check says what it saw and how to mend it."""
