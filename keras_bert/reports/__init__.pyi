from keras_bert.reports.charts import curve_points as curve_points
from keras_bert.reports.charts import line_chart as line_chart
from keras_bert.reports.page import ReportHead as ReportHead
from keras_bert.reports.page import render as render
from keras_bert.reports.provenance import environment as environment
