! SPDX-License-Identifier: BSD-3-Clause
!
! examples/spmv/exchange_mpi.f90: the exchange of exchange_mpi.c as one writes it in Fortran, by
! Isend and Irecv.
module spmv_exchange_mpi
  use mpi
  use, intrinsic :: iso_c_binding, only: c_int, c_long_long
  implicit none
  private

  type, public :: exchange_t
    private
    integer :: comm, ranks, rows
    integer, allocatable :: from(:), to(:)    ! (0:ranks - 1), elements received and sent
    integer, allocatable :: send(:)           ! places of the elements that are sent
    double precision, allocatable :: packed(:)
    integer, allocatable :: request(:)
  end type

  public :: exchange_plan, exchange_elements

contains

  ! The elements that each rank needs from the others. local(k) is the place of column(k) in this
  ! rank's vector: 1 to `rows` are its own, and `ghosts` elements of other ranks follow.
  subroutine exchange_plan(comm, rows, column, local, ghosts, e)
    integer, intent(in) :: comm, rows
    integer(c_long_long), intent(in) :: column(:)
    integer(c_int), intent(out) :: local(:), ghosts
    type(exchange_t), intent(out) :: e
    integer, allocatable :: first(:), ghost(:)
    integer :: rank, ierr, r

    e%comm = comm
    e%rows = rows
    call MPI_Comm_rank(comm, rank, ierr)
    call MPI_Comm_size(comm, e%ranks, ierr)
    allocate (first(0:e%ranks), e%from(0:e%ranks - 1), e%to(0:e%ranks - 1))
    allocate (e%request(2 * e%ranks))
    first(0) = 1
    call MPI_Allgather(rows, 1, MPI_INTEGER, first(1:), 1, MPI_INTEGER, comm, ierr)
    do r = 1, e%ranks
      first(r) = first(r) + first(r - 1)
    end do
    call find_ghosts(first, rank, column, local, ghost)
    ghosts = size(ghost)
    call ask_owners(e, first, rank, ghost)
    allocate (e%packed(size(e%send)))
  end subroutine

  ! ghost: the columns of other ranks, ascending. A table of all columns is simpler than sorting,
  ! and no larger than the partition (problem.c).
  subroutine find_ghosts(first, rank, column, local, ghost)
    integer, intent(in) :: first(0:), rank
    integer(c_long_long), intent(in) :: column(:)
    integer(c_int), intent(out) :: local(:)
    integer, allocatable, intent(out) :: ghost(:)
    integer, allocatable :: place(:)
    integer :: k, c, n

    allocate (place(first(ubound(first, 1)) - 1))
    place = 0
    do k = 1, size(column)
      place(column(k)) = 1
    end do
    place(first(rank):first(rank + 1) - 1) = 0
    allocate (ghost(count(place == 1)))
    n = 0
    do c = 1, size(place)
      if (place(c) == 0) cycle
      n = n + 1
      ghost(n) = c
      place(c) = first(rank + 1) - first(rank) + n
    end do
    do c = first(rank), first(rank + 1) - 1
      place(c) = c - first(rank) + 1
    end do
    do k = 1, size(column)
      local(k) = place(column(k))
    end do
  end subroutine

  subroutine ask_owners(e, first, rank, ghost)
    type(exchange_t), intent(inout) :: e
    integer, intent(in) :: first(0:), rank, ghost(:)
    integer :: at(0:e%ranks - 1), to_at(0:e%ranks - 1), ierr, r

    do r = 0, e%ranks - 1
      e%from(r) = count(ghost >= first(r) .and. ghost < first(r + 1))
    end do
    call MPI_Alltoall(e%from, 1, MPI_INTEGER, e%to, 1, MPI_INTEGER, e%comm, ierr)
    at = [(sum(e%from(:r - 1)), r = 0, e%ranks - 1)]
    to_at = [(sum(e%to(:r - 1)), r = 0, e%ranks - 1)]
    allocate (e%send(sum(e%to)))
    call MPI_Alltoallv(ghost, e%from, at, MPI_INTEGER, e%send, e%to, to_at, MPI_INTEGER, e%comm, &
      ierr)
    e%send = e%send - first(rank) + 1
  end subroutine

  ! Fills the ghosts of x.
  subroutine exchange_elements(e, x)
    type(exchange_t), intent(inout), asynchronous :: e
    double precision, intent(inout), contiguous, asynchronous :: x(:)
    integer :: ierr, r, k, at, n

    n = 0
    at = e%rows + 1
    do r = 0, e%ranks - 1
      if (e%from(r) == 0) cycle
      n = n + 1
      call MPI_Irecv(x(at), e%from(r), MPI_DOUBLE_PRECISION, r, 1, e%comm, e%request(n), ierr)
      at = at + e%from(r)
    end do
    do k = 1, size(e%send)
      e%packed(k) = x(e%send(k))
    end do
    at = 1
    do r = 0, e%ranks - 1
      if (e%to(r) == 0) cycle
      n = n + 1
      call MPI_Isend(e%packed(at), e%to(r), MPI_DOUBLE_PRECISION, r, 1, e%comm, e%request(n), ierr)
      at = at + e%to(r)
    end do
    call MPI_Waitall(n, e%request, MPI_STATUSES_IGNORE, ierr)
  end subroutine

end module
