"""The operations that both clients have besides those of an app: a line makes a method of each."""

from interlock.client.declared import lists, sends
from interlock.client.scheduler_operations import SchedulerOperations
from interlock.interface import job_operations as j
from interlock.interface import record_operations as records
from interlock.interface import run_operations as r
from interlock.interface.overview_operations import ReadFailures, ReadOverview, ReadTallies
from interlock.interface.server_operations import ReadService, ReadServices
from interlock.interface.sign_in_operations import ReadMe


class GatewayOperations(SchedulerOperations):
    runs = lists(r.ReadRuns, lambda page: page.runs, page=200)
    steps = lists(r.ReadSteps, lambda page: page.steps, page=200)
    record = sends(r.ReadRecord)
    explain = sends(r.ReadExplanation)
    history = sends(r.ReadHistory, lambda found: found.entries)
    act_on_many = sends(r.ActOnRuns)
    send_event = sends(r.SendRunEvent, lambda acted: acted.id)
    send_workflow_event = sends(r.SendWorkflowEvent, lambda acted: acted.id)

    jobs = lists(j.ReadJobs, lambda page: page.jobs)
    job = sends(j.ReadJob)
    job_log = sends(j.ReadJobLog, lambda found: found.runs)
    next_times = sends(j.ReadTimes, lambda found: found.times)
    pause = sends(j.PauseJob)
    resume = sends(j.ResumeJob)
    delete_job = sends(j.DeleteJob)

    deliveries = lists(records.ReadDeliveries, lambda page: page.deliveries)
    delivery = sends(records.ReadDelivery)
    dead_letters = lists(records.ReadLetters, lambda page: page.letters)
    dead_letter = sends(records.ReadLetter)
    replay_many = sends(records.ReplayLetters)
    drop_dead_letter = sends(records.DropLetter, lambda dropped: None)
    approvals = lists(records.ReadApprovals, lambda page: page.approvals)
    approval = sends(records.ReadApproval)

    me = sends(ReadMe)
    overview = sends(ReadOverview)
    tallies = lists(ReadTallies, lambda page: page.tallies, page=1000)
    failures = sends(ReadFailures, lambda found: found.failures)
    services = sends(ReadServices, lambda found: found.services)
    service = sends(ReadService)
