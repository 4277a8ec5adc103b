from keras_bert.testing.head_checks import check_head as check_head
from keras_bert.testing.promises import BrokenPromises as BrokenPromises
from keras_bert.testing.promises import Checked as Checked
from keras_bert.testing.task_checks import check_task as check_task
