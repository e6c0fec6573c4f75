"""The operations that apps and both clients have in common: a line makes a method of each."""

from interlock.client.declared import RequestSender, acts, lists, sends
from interlock.wire.approval_request import ApproveRun, RejectRun, ReleaseOutput
from interlock.wire.cluster_request import AskCluster, HandOver
from interlock.wire.delivery_request import Redeliver
from interlock.wire.lane_request import ActOnLane, AskLanes, AskTenants, CreateLane
from interlock.wire.policy_request import AskPolicy
from interlock.wire.run_request import CancelRun, HoldRun, ReleaseRun
from interlock.wire.service_request import ActOnService, AskTree, Reload
from interlock.wire.session_request import ActOnSession, AskSession, AskSessions
from interlock.wire.worker_request import ActOnWorker, AskPools, AskWorker, AskWorkers
from interlock.wire.workflow_request import ActOnWorkflow, AskWorkflows


class SchedulerOperations(RequestSender):
    cancel = sends(CancelRun, lambda acted: acted.state)
    hold = sends(HoldRun, lambda acted: acted.state)
    release = sends(ReleaseRun, lambda acted: acted.state)
    approve = sends(ApproveRun, lambda acted: acted.state)
    reject = sends(RejectRun, lambda acted: acted.state)
    release_output = sends(ReleaseOutput, lambda acted: acted.state)
    lanes = sends(AskLanes, lambda found: found.lanes)
    create_lane = sends(CreateLane)
    act_on_lane = acts(ActOnLane)
    tenants = sends(AskTenants, lambda found: found.tenants)
    sessions = lists(AskSessions, lambda page: page.sessions)
    session = sends(AskSession)
    act_on_session = acts(ActOnSession)
    workflows = lists(AskWorkflows, lambda page: page.workflows)
    act_on_workflow = acts(ActOnWorkflow)
    pools = sends(AskPools, lambda found: found.pools)
    workers = sends(AskWorkers, lambda found: found.workers)
    worker = sends(AskWorker)
    act_on_worker = acts(ActOnWorker)
    redeliver = sends(Redeliver)
    policy = sends(AskPolicy)
    tree = sends(AskTree)
    act = acts(ActOnService)
    reload = sends(Reload)
    cluster = sends(AskCluster)
    hand_over = sends(HandOver)
